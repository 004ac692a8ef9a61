/* Which cards are taken: why one cannot be used and what to do about it, word for word; cards that are
 * unlike. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "emulator/emulator.h"

static void start(struct fm_emulator_settings settings)
{
    fm_emulator_reset(&settings);
}

static void nothing_wrong(const char *when)
{
    struct fm_emulator_counts counts;
    fm_emulator_count(&counts);
    cr_expect_eq(counts.faults, 0, "%s: %s", when, fm_emulator_fault());
    cr_expect_eq(counts.live, 0, "%s: %d objects are left", when, (int)counts.live);
}

/* ---- statuses -------------------------------------------------------------------------------------------
 */

static const struct {
    int status;
    const char *sentence;
} statuses[] = {
    {2,
     "the card's memory is in use: end the programs that nvidia-smi shows, or take another card (CUDA error "
     "2)"},
    {3,
     "the driver could not be started: look whether nvidia-smi works, and reboot if it does not (CUDA error "
     "3)"},
    {34,
     "the stub of libcuda.so that comes with a toolkit is found before the driver's: take the folder stubs "
     "out of LD_LIBRARY_PATH (CUDA error 34)"},
    {46,
     "another process has the card to itself, or its compute mode forbids computing: look with nvidia-smi, "
     "end that process or set the mode (as root: nvidia-smi -c DEFAULT) (CUDA error 46)"},
    {100,
     "the driver sees no card: look with nvidia-smi -L; CUDA_VISIBLE_DEVICES, if set, has to name one, and a "
     "container is to be started with --gpus all (CUDA error 100)"},
    {200, "the plug-in's code for the card is damaged: make clean, then make (CUDA error 200)"},
    {221, "the plug-in has no code for the card, and the driver's compiler is missing: install "
          "libnvidia-ptxjitcompiler of the driver's version, or build on this machine: make clean, then make "
          "(CUDA error 221)"},
    {223, "the plug-in has no code for the card, and CUDA_DISABLE_PTX_JIT forbids to make some: unset it, or "
          "build on this machine: make clean, then make (CUDA error 223)"},
    {304, "the system does not let CUDA open the card: /dev/nvidia0 and /dev/nvidia-uvm have to be there (as "
          "root: modprobe nvidia-uvm) and to be yours to read and write (CUDA error 304)"},
    {802, "the system is not ready: with NVSwitch start the fabric manager of the driver's version (as root: "
          "systemctl start nvidia-fabricmanager), elsewhere wait a minute and try again (CUDA error 802)"},
    {803,
     "the driver's kernel module and its library are of different versions, as after an update: reboot, or "
     "unload the nvidia modules and load them again (CUDA error 803)"},
    {804,
     "the compatibility package of CUDA works on data-centre cards only: remove cuda-compat (or its folder "
     "from LD_LIBRARY_PATH) and update the driver (CUDA error 804)"},
    {807, "the MPS server does not serve this process: start it anew (nvidia-cuda-mps-control), or unset "
          "CUDA_MPS_PIPE_DIRECTORY (CUDA error 807)"},
    {999,
     "the driver failed: look whether nvidia-smi works and what dmesg says; after a suspend load its module "
     "anew (as root: modprobe -r nvidia_uvm; modprobe nvidia_uvm), else reboot (CUDA error 999)"},
    {209, "its architecture, sm_61, needs a plug-in built with CUDA 12 or 11 (Debian: apt-get install "
          "nvidia-cuda-toolkit, then make); this one is of CUDA 13"},
    {222,
     "the driver is older than the plug-in's code: install a newer driver, or build on this machine: make "
     "clean, then make (CUDA error 222)"},
    {36, "the driver supports CUDA 13.0, this plug-in needs 13: install driver 580 or newer, or build with "
         "an older toolkit (README, 'GPUs')"},
    {127, "CUDA says 'startup failure in cuda runtime' (127): look whether nvidia-smi works and what dmesg "
          "says; if it does not, reboot"},
};

/* The calls are cudaGetDeviceCount, then for each card cudaSetDevice and the question for code. */
Test(cuda_cards, every_status_is_a_sentence_that_says_what_to_do)
{
    static const struct {
        const char *select, *begins;
        int call;
    } ways[] = {{NULL, "no GPU can be used: ", 1},         {NULL, "no GPU can be used: card 0: ", 2},
                {NULL, "no GPU can be used: card 0: ", 3}, {"0", "no GPU can be used: ", 1},
                {"0", "card 0 cannot be used: ", 2},       {"0", "card 0 cannot be used: ", 3}};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
            char want[600], got[600] = "";
            const char *sentence = statuses[i].sentence;
            /* There is no card yet whose architecture could be told. */
            if (ways[way].call == 1 && strstr(sentence, "its architecture"))
                sentence = "the driver does not tell its architecture: look whether nvidia-smi works";
            start((struct fm_emulator_settings){
                .card = "gtx1060", .fail_call = ways[way].call, .fail_status = statuses[i].status});
            cr_expect_neq(fm_cuda_usable(ways[way].select, got, sizeof got), 0);
            snprintf(want, sizeof want, "%s%s", ways[way].begins, sentence);
            cr_expect_str_eq(got, want);
            nothing_wrong(want);
            if (statuses[i].status == 999) continue; /* after it CUDA says nothing else */
            cr_expect_eq(cudaPeekAtLastError(), cudaSuccess, "%s", want);
            /* It was one call: the next try has the card. */
            cr_expect_eq(fm_cuda_usable(ways[way].select, got, sizeof got), 0, "%s", got);
        }
}

/* Opening says the same as asking, and leaves nothing behind. */
Test(cuda_cards, opening_says_why)
{
    for (int call = 1; call <= 5; call++) {
        struct fm_device *device = NULL;
        struct fm_error err = {0};
        start((struct fm_emulator_settings){.fail_call = call, .fail_status = 803});
        cr_expect_eq(fm_cuda_open(&device, NULL, &err), FM_EDEVICE);
        cr_expect(strstr(err.text, "of different versions, as after an update: reboot"), "%s", err.text);
        cr_expect_null(device);
        nothing_wrong("opening");
    }
}

Test(cuda_cards, no_status_is_without_advice_or_cut_off)
{
    char why[256];
    fm_emulator_reset(NULL);
    for (int status = 1; status < 1200; status++) {
        fm_cuda_why((cudaError_t)status, 0, why, sizeof why);
        cr_expect_lt(strlen(why), sizeof why - 1, "%s", why);
        cr_expect(strchr(why, ':') && !strchr(why, '\n'), "%s", why);
    }
}

/* ---- drivers --------------------------------------------------------------------------------------------
 */

Test(cuda_cards, a_driver_that_is_missing_or_too_old)
{
    static const struct {
        int driver, toolkit;
        const char *sentence;
    } cases[] = {
        {0, 13,
         "there is no NVIDIA driver: install it (Debian: apt-get install nvidia-driver, non-free), then "
         "reboot; a container is to be started with --gpus all"},
        {12020, 13,
         "the driver supports CUDA 12.2, this plug-in needs 13: install driver 580 or newer, or build with "
         "an older toolkit (README, 'GPUs')"},
        {11080, 12,
         "the driver supports CUDA 11.8, this plug-in needs 12: install driver 525 or newer, or build with "
         "an older toolkit (README, 'GPUs')"},
        {10020, 11,
         "the driver supports CUDA 10.2, this plug-in needs 11: install driver 450 or newer, or build with "
         "an older toolkit (README, 'GPUs')"},
        {9010, 10,
         "the driver supports CUDA 9.1, this plug-in needs 10: install driver 440 or newer, or build with "
         "an older toolkit (README, 'GPUs')"}};
    char why[256], got[600], want[600];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fm_cuda_why_driver(cases[i].driver, cases[i].toolkit, why, sizeof why);
        cr_expect_str_eq(why, cases[i].sentence);
    }
    for (int i = 0; i < 2; i++) {
        struct fm_emulator_settings settings = {.no_driver = i == 0, .driver = i == 0 ? 0 : 12020};
        struct fm_text list = {0};
        struct fm_error err = {0};
        fm_emulator_reset(&settings);
        cr_expect_neq(fm_cuda_usable(NULL, got, sizeof got), 0);
        snprintf(want, sizeof want, "no GPU can be used: %s", cases[i].sentence);
        cr_expect_str_eq(got, want);
        cr_expect_eq(fm_cuda_list(&list, false, &err), 0);
        snprintf(want, sizeof want, "cuda       cannot be used: no GPU can be used: %s\n", cases[i].sentence);
        cr_expect_str_eq(list.data, want);
        fm_text_fini(&list);
    }
    /* A newer one of this major version or the next serves, and belongs to the kind. */
    struct fm_device *device;
    struct fm_error err = {0};
    start((struct fm_emulator_settings){.driver = 14010});
    cr_assert_eq(fm_cuda_open(&device, NULL, &err), 0, "%s", err.text);
    cr_expect(strstr(fm_cuda_numbers(device), "driver 14010"), "%s", fm_cuda_numbers(device));
    fm_cuda_close(device);
    nothing_wrong("a newer driver");
}

Test(cuda_cards, a_machine_without_cards)
{
    char got[600];
    start((struct fm_emulator_settings){.cards = -1});
    cr_expect_neq(fm_cuda_usable(NULL, got, sizeof got), 0);
    cr_expect(strstr(got, "the driver sees no card: look with nvidia-smi -L"), "%s", got);
}

/* ---- architectures --------------------------------------------------------------------------------------
 */

Test(cuda_cards, a_card_without_code_asks_for_the_toolkit_that_has_it)
{
    /* What the sentence names: a toolkit, or another build with this one. */
    static const char again[] = "was built without code for its architecture", old[] = "built with CUDA 10.2",
                      eleven[] = "built with CUDA 11 (", twelve[] = "built with CUDA 12 or 11";
    static const struct {
        int sm;
        const char *with[4]; /* CUDA 10 to 13 */
    } cases[] = {{30, {again, old, old, old}},         {35, {again, again, eleven, eleven}},
                 {37, {again, again, eleven, eleven}}, {50, {again, again, again, twelve}},
                 {61, {again, again, again, twelve}},  {70, {again, again, again, twelve}},
                 {75, {again, again, again, again}},   {90, {again, again, again, again}},
                 {120, {again, again, again, again}}};
    char why[256], sm[16];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int toolkit = 10; toolkit <= 13; toolkit++) {
            fm_cuda_why_no_code(cases[i].sm, toolkit, why, sizeof why);
            snprintf(sm, sizeof sm, "sm_%d", cases[i].sm);
            cr_expect(strstr(why, cases[i].with[toolkit - 10]) && strstr(why, sm) && strstr(why, "make"),
                      "%d: %s", toolkit, why);
            snprintf(sm, sizeof sm, "CUDA %d", toolkit);
            cr_expect(strstr(why, sm), "%s", why);
        }
    fm_cuda_why_no_code(0, 13, why, sizeof why);
    cr_expect_str_eq(why, "the driver does not tell its architecture: look whether nvidia-smi works");
}

Test(cuda_cards, the_architecture_is_that_of_the_card)
{
    static const struct {
        const char *card, *sm;
    } cases[] = {{"gtx760", "sm_30, needs"},
                 {"gtx780", "sm_35, needs"},
                 {"gtx970", "sm_52, needs"},
                 {"gtx1060", "sm_61, needs"},
                 {"h200", "sm_90: make"}};
    char got[600];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start((struct fm_emulator_settings){.card = cases[i].card, .fail_call = 3, .fail_status = 209});
        cr_expect_neq(fm_cuda_usable("0", got, sizeof got), 0);
        cr_expect(strstr(got, cases[i].sm), "%s", got);
    }
    start((struct fm_emulator_settings){.fail_call = 3, .fail_status = 209, .fail_sticky = true});
    cr_expect_neq(fm_cuda_usable("0", got, sizeof got), 0);
    cr_expect(strstr(got, "does not tell its architecture"), "%s", got);
}

/* ---- several cards --------------------------------------------------------------------------------------
 */

static int open_cards(const char *card, const char *others, const char *select, struct fm_device **device,
                      struct fm_error *err)
{
    const struct fm_device_options options = {.select = select};
    start((struct fm_emulator_settings){.cards = 3, .card = card, .others = others});
    memset(err, 0, sizeof *err);
    return fm_cuda_open(device, &options, err);
}

Test(cuda_cards, unlike_cards_are_refused_by_name)
{
    static const struct {
        const char *card, *others, *text;
    } cases[] = {
        {"gtx1060", "h200",
         "cards 0 (NVIDIA GeForce GTX 1060 6GB, sm_61, 10 multiprocessors) and 1 (NVIDIA H200, sm_90, 132) "
         "differ and would give different results: name cards of one kind, or run a sweep for each"},
        {"gtx1080", "gtx1060", /* one architecture, another number of multiprocessors */
         "cards 0 (NVIDIA GeForce GTX 1080, sm_61, 20 multiprocessors) and 1 (NVIDIA GeForce GTX 1060 6GB, "
         "sm_61, 10) differ and would give different results: name cards of one kind, or run a sweep for "
         "each"}};
    struct fm_device *device;
    struct fm_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(open_cards(cases[i].card, cases[i].others, "0,1", &device, &err), FM_EUSAGE);
        cr_expect_str_eq(err.text, cases[i].text);
        cr_expect_null(device);
        nothing_wrong("refused");
        cr_expect_eq(open_cards(cases[i].card, cases[i].others, "2,1,0", &device, &err), FM_EUSAGE);
        cr_expect(strstr(err.text, "cards 2 (") && strstr(err.text, ") and 0 ("), "%s", err.text);
        nothing_wrong("refused in another order");
    }
}

Test(cuda_cards, like_cards_are_taken_whatever_stands_beside_them)
{
    struct fm_device *device;
    struct fm_error err;
    cr_assert_eq(open_cards("gtx1060", "h200", "1,2", &device, &err), 0, "%s", err.text);
    cr_expect(strstr(fm_cuda_describe(device), "NVIDIA H200 and 1 more like it (card 1, sm_90"), "%s",
              fm_cuda_describe(device));
    fm_cuda_close(device);
    nothing_wrong("two like cards");
    cr_assert_eq(open_cards("rtx3060", NULL, "0,1,2", &device, &err), 0, "%s", err.text);
    cr_expect(strstr(fm_cuda_describe(device), "RTX 3060 and 2 more like it"), "%s",
              fm_cuda_describe(device));
    fm_cuda_close(device);
    nothing_wrong("three like cards");
    /* Without a choice it is one card, the first. */
    cr_assert_eq(open_cards("gtx1060", "h200", NULL, &device, &err), 0, "%s", err.text);
    cr_expect(strstr(fm_cuda_describe(device), "GTX 1060 6GB (card 0, sm_61"), "%s",
              fm_cuda_describe(device));
    fm_cuda_close(device);
    nothing_wrong("one card");
}

/* Cards that are open already must not be asked for anything, not even to be closed, once another has lost
 * the context; after any other failure they are closed. */
Test(cuda_cards, no_call_follows_a_loss_while_several_are_opened)
{
    struct fm_emulator_counts counts;
    for (int lost = 0; lost < 2; lost++) {
        int failed = 0, call = 0;
        for (int status = -1; status; failed += status != 0) {
            const struct fm_device_options options = {.select = "0,1,2"};
            struct fm_device *device = NULL;
            struct fm_error err = {0};
            start((struct fm_emulator_settings){
                .cards = 3, .fail_call = ++call, .fail_status = lost ? 719 : 46, .fail_sticky = lost});
            status = fm_cuda_open(&device, &options, &err);
            fm_emulator_count(&counts);
            if (!status && counts.calls >= call) status = 1; /* a failure that is no matter */
            fm_cuda_close(device);
            fm_emulator_count(&counts);
            cr_expect_eq(counts.faults, 0, "call %d: %s", call, fm_emulator_fault());
            cr_expect_eq(counts.calls_after_loss, 0, "call %d: %d calls after the loss (%s)", call,
                         (int)counts.calls_after_loss, err.text);
            if (!lost) cr_expect_eq(counts.live, 0, "call %d: %d objects are left", call, (int)counts.live);
        }
        cr_expect_gt(failed, 40);
    }
}

Test(cuda_cards, the_list_names_each_kind)
{
    struct fm_text list = {0};
    struct fm_error err = {0};
    start((struct fm_emulator_settings){.card = "gtx1060", .others = "h200"});
    cr_assert_eq(fm_cuda_list(&list, false, &err), 0, "%s", err.text);
    cr_expect(strstr(list.data, "cuda:0     NVIDIA GeForce GTX 1060 6GB, sm_61, 10 multiprocessors"), "%s",
              list.data);
    cr_expect(strstr(list.data, "cuda:1     NVIDIA H200, sm_90, 132 multiprocessors"), "%s", list.data);
    cr_expect_null(strstr(list.data, "cuda:2"), "two, unless more are asked for");
    fm_text_fini(&list);
}

/* ---- the emulator's settings ----------------------------------------------------------------------------
 */

Test(cuda_cards, settings_of_cards_and_drivers)
{
    static const char *const wrong[] = {
        "card=gtx1060+", "card=+h200", "card=h200+gtx1", "card=h200+h200+h200",
        "card=",         "driver=",    "driver=12",      "driver=99999999999"};
    struct fm_emulator_settings settings;
    char why[128];
    cr_assert(fm_emulator_parse("card=gtx1060+h200,cards=3,driver=12020", &settings, why, sizeof why));
    cr_expect_str_eq(settings.card, "gtx1060");
    cr_expect_str_eq(settings.others, "h200");
    cr_expect(settings.cards == 3 && settings.driver == 12020);
    cr_assert(fm_emulator_parse("card=gtx1060+h200,card=rtx3060", &settings, why, sizeof why));
    cr_expect_str_eq(settings.card, "rtx3060");
    cr_expect_null(settings.others);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect(!fm_emulator_parse(wrong[i], &settings, why, sizeof why) && strstr(why, wrong[i]), "%s",
                  wrong[i]);
}
