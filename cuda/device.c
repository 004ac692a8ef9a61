/* The cards of --device: chosen, opened, compared, described. */
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lane.h"
#include "library/library.h"

#define MAX_LANES 4096

/* Lanes to keep open on a card unless the user says: a small network's kernels leave most of a card
 * idle, so several lanes share a multiprocessor. Streams of all lanes go through at most 32 hardware queues:
 * many more than twice as many lanes would only wait for each other, and take memory. */
enum { LANES_OF_A_MULTIPROCESSOR = 4, LEAST_LANES = 16, MOST_LANES = 64 };

/* "0,2" -> numbers; NULL or "" -> none chosen. */
static int parse_select(const char *select, int numbers[FM_CUDA_MAX_CARDS], int *count, struct fm_error *err)
{
    *count = 0;
    if (!select || !*select) return 0;
    for (const char *at = select;; at++) {
        int number = 0, digits = 0;
        for (; *at >= '0' && *at <= '9' && digits < 4; at++, digits++) number = number * 10 + (*at - '0');
        for (int i = 0; i < *count; i++)
            if (digits && numbers[i] == number)
                return fm_fail(err, FM_EUSAGE, "--device cuda:%s names card %d twice", select, number);
        if (!digits || (*at && *at != ','))
            return fm_fail(err, FM_EUSAGE,
                           "--device cuda:%s: expected numbers of cards, such as cuda:0 or cuda:0,1", select);
        if (*count == FM_CUDA_MAX_CARDS)
            return fm_fail(err, FM_EUSAGE, "--device cuda:%s: at most %d cards", select, FM_CUDA_MAX_CARDS);
        numbers[(*count)++] = number;
        if (!*at) return 0;
    }
}

/* The first CUDA call of a sweep. Streams share the card's hardware queues, and lanes in one queue wait for
 * each other: there are 8 unless more, at most 32, are asked for before CUDA starts. */
static int count_cards(int *count, char *why, size_t why_size)
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    *count = 0;
    const cudaError_t status = cudaGetDeviceCount(count);
    if (status == cudaSuccess && *count > 0) return 0;
    *count = 0;
    cudaGetLastError();
    fm_cuda_why(status == cudaSuccess ? cudaErrorNoDevice : status, -1, why, why_size);
    return 1;
}

/* The cards to use: the chosen ones, or the first that can be used. */
static int choose(const char *select, int numbers[FM_CUDA_MAX_CARDS], int *count, struct fm_error *err)
{
    char why[256], reason[512] = "";
    int there;
    int status = parse_select(select, numbers, count, err);
    if (status) return status;
    if (count_cards(&there, why, sizeof why)) return fm_fail(err, FM_EDEVICE, "no GPU can be used: %s", why);
    for (int i = 0; i < *count; i++) {
        if (numbers[i] >= there)
            return fm_fail(err, FM_EUSAGE, "--device cuda:%s: there is no card %d, the last one is %d",
                           select, numbers[i], there - 1);
        if (fm_card_usable(numbers[i], why, sizeof why))
            return fm_fail(err, FM_EDEVICE, "card %d cannot be used: %s", numbers[i], why);
    }
    if (*count) return 0;
    for (int number = 0; number < there; number++) {
        if (!fm_card_usable(number, why, sizeof why)) {
            numbers[(*count)++] = number;
            return 0;
        }
        if (!*reason) snprintf(reason, sizeof reason, "card %d: %s", number, why);
    }
    return fm_fail(err, FM_EDEVICE, "no GPU can be used: %s", reason);
}

int fm_cuda_usable(const char *select, char *why, size_t why_size)
{
    int numbers[FM_CUDA_MAX_CARDS], count;
    struct fm_error err = {0};
    if (!choose(select, numbers, &count, &err)) return 0;
    snprintf(why, why_size, "%s", err.text);
    return 1;
}

static int kind_of(struct fm_device *device, int number, struct fm_cuda_kind *kind, struct fm_error *err)
{
    int driver = 0, runtime = CUDART_VERSION;
    int status =
        fm_cuda_check(device, cudaDeviceGetAttribute(&kind->major, cudaDevAttrComputeCapabilityMajor, number),
                      err, "ask about the card");
    if (!status)
        status = fm_cuda_check(
            device, cudaDeviceGetAttribute(&kind->minor, cudaDevAttrComputeCapabilityMinor, number), err,
            "ask about the card");
    if (!status)
        status =
            fm_cuda_check(device, cudaDeviceGetAttribute(&kind->sms, cudaDevAttrMultiProcessorCount, number),
                          err, "ask about the card");
    if (!status)
        status = fm_cuda_check(device, cudaDriverGetVersion(&driver), err, "ask for the driver's version");
    kind->driver = driver;
    kind->runtime = runtime;
    return status;
}

/* Lanes of one sweep may run on any of the cards, so all must give the same bits. */
static int open_cards(struct fm_device *device, const int *numbers, int count, struct fm_error *err)
{
    for (int i = 0; i < count; i++) {
        struct fm_cuda_kind kind = {0};
        int status = fm_card_open(device, &device->cards[i], numbers[i], err);
        device->ncards = i + 1;
        if (!status) status = kind_of(device, numbers[i], &kind, err);
        if (status) return status;
        if (i == 0) device->kind = kind;
        if (kind.major != device->kind.major || kind.minor != device->kind.minor ||
            kind.sms != device->kind.sms)
            return fm_fail(
                err, FM_EUSAGE,
                "cards %d (%s, sm_%d%d, %d multiprocessors) and %d (%s, sm_%d%d, %d) differ and would give "
                "different results: name cards of one kind, or run a sweep for each",
                numbers[0], device->cards[0].name, device->kind.major, device->kind.minor, device->kind.sms,
                numbers[i], device->cards[i].name, kind.major, kind.minor, kind.sms);
    }
    return 0;
}

static int open_libraries(struct fm_device *device, struct fm_error *err)
{
    struct fm_cuda_libraries *libraries = NULL;
    const enum fm_kernels_choice choice = device->options.kernels;
    device->kind.kernels = (int)choice;
    if (choice == FM_KERNELS_OWN) {
        snprintf(device->why_no_library, sizeof device->why_no_library, "--kernels own");
        return 0;
    }
    int status = fm_libraries_open(&libraries, FM_CUDA_MAJOR, device->kind.major * 10 + device->kind.minor,
                                   device->why_no_library, sizeof device->why_no_library, err);
    if (status) return status;
    device->libraries = libraries;
    for (int i = 0; !status && i < device->ncards; i++) {
        status = fm_card_use(device, &device->cards[i], err);
        if (!status) status = fm_library_handles_open(device, &device->cards[i], err);
    }
    if (status) return status;
    /* Handles say whether a library works on a card: 0 unless it does on all of them. */
    device->kind.cudnn = libraries->cudnn;
    device->kind.cublas = libraries->cublas;
    for (int i = 0; i < device->ncards; i++) {
        if (!device->cards[i].dnn) device->kind.cudnn = 0;
        if (!device->cards[i].blas) device->kind.cublas = 0;
    }
    if (choice == FM_KERNELS_LIBRARY && !device->kind.cudnn && !device->kind.cublas)
        return fm_fail(err, FM_EUSAGE, "--kernels library: %s; --kernels own needs none",
                       device->why_no_library);
    return 0;
}

static void write_texts(struct fm_device *device)
{
    static const char *const choices[] = {"auto", "own", "library"};
    const struct fm_cuda_kind *k = &device->kind;
    char more[48] = "", memory[FM_BYTES_TEXT], libraries[96];
    if (device->ncards > 1) snprintf(more, sizeof more, " and %d more like it", device->ncards - 1);
    int size = 0;
    snprintf(libraries, sizeof libraries, "own kernels only");
    if (k->cudnn) size = snprintf(libraries, sizeof libraries, "cuDNN %lld", (long long)k->cudnn);
    if (k->cublas)
        snprintf(libraries + size, sizeof libraries - (size_t)size, "%scuBLAS %lld", size ? ", " : "",
                 (long long)k->cublas);
    snprintf(device->text, sizeof device->text,
             "cuda: %s%s (card %d, sm_%d%d, %d multiprocessors, %s), driver %lld.%lld, %s",
             device->cards[0].name, more, device->cards[0].number, k->major, k->minor, k->sms,
             fm_show_bytes(device->cards[0].total, memory), (long long)(k->driver / 1000),
             (long long)(k->driver % 1000 / 10), libraries);
    snprintf(device->numbers, sizeof device->numbers,
             "cuda:sm_%d%dx%d,driver %lld,runtime %lld,cudnn %lld,cublas %lld,kernels %s", k->major, k->minor,
             k->sms, (long long)k->driver, (long long)k->runtime, (long long)k->cudnn, (long long)k->cublas,
             choices[k->kernels]);
}

int fm_cuda_open(struct fm_device **out, const struct fm_device_options *options, struct fm_error *err)
{
    int numbers[FM_CUDA_MAX_CARDS], count;
    *out = NULL;
    if (options && options->lanes > MAX_LANES)
        return fm_fail(err, FM_EUSAGE, "%lld lanes are too many: at most %d", (long long)options->lanes,
                       MAX_LANES);
    int status = choose(options ? options->select : NULL, numbers, &count, err);
    if (status) return status;
    struct fm_device *device = fm_calloc(1, sizeof *device);
    if (!device) return fm_fail_memory(err);
    if (options) device->options = *options;
    device->options.select = NULL;
    status = open_cards(device, numbers, count, err);
    if (!status) status = open_libraries(device, err);
    if (!status && device->options.profile) status = fm_profile_new(device, err);
    if (status) {
        fm_cuda_close(device);
        return status;
    }
    write_texts(device);
    *out = device;
    return 0;
}

void fm_cuda_close(struct fm_device *device)
{
    if (!device) return;
    fm_profile_free(device);
    fm_cuda_plans_free(device);
    for (int i = 0; i < device->nresident; i++) fm_cuda_unload(device, i);
    for (int i = 0; i < device->ncards; i++) fm_card_close(device, &device->cards[i]);
    fm_libraries_free((struct fm_cuda_libraries *)device->libraries);
    fm_free(device->resident);
    fm_free(device);
}

const char *fm_cuda_describe(const struct fm_device *device)
{
    return device->text;
}

const char *fm_cuda_numbers(const struct fm_device *device)
{
    return device->numbers;
}

/* The scheduler opens fewer where memory ends before (fm_cuda_memory). */
int64_t fm_cuda_lanes(const struct fm_device *device)
{
    int64_t lanes = (int64_t)LANES_OF_A_MULTIPROCESSOR * device->kind.sms;
    if (device->options.lanes > 0) return device->options.lanes;
    if (lanes < LEAST_LANES) lanes = LEAST_LANES;
    if (lanes > MOST_LANES) lanes = MOST_LANES;
    return lanes * device->ncards;
}

/* Every card counts as the one with least room: a lane must fit on any of them. */
int64_t fm_cuda_memory(const struct fm_device *device)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < device->ncards; i++) {
        /* Looking changes nothing that the caller sees. */
        struct fm_device *own = (struct fm_device *)device;
        struct fm_card *card = &own->cards[i];
        struct fm_error err = {0};
        int64_t bytes = card->arena.size;
        if (!card->arena.base && fm_card_room(own, card, &bytes, &err)) return err.code;
        if (bytes < least) least = bytes;
    }
    return least < 1 ? 1 : least * device->ncards;
}

void fm_cuda_transfers(const struct fm_device *device, struct fm_transfers *transfers)
{
    *transfers = device->transfers;
}
