/* What `foldmill devices` and `plan --explain` say of the libraries: which are used, which not, and why. */
#include <criterion/criterion.h>
#include <string.h>

#include "cuda.h"
#include "emulator/emulator.h"
#include "emulator/library.h"
#include "support/bench.h"

static const char no_code[] = "no cuDNN: versions from 9.11 on have no code for this card (sm_61): install "
                              "9.10.2 and name its folder in FOLDMILL_LIBDIRS\n";

static void list(struct fm_text *text, bool libraries, const struct fm_emulator_settings *cards,
                 const struct fm_emulator_library *library)
{
    struct fm_error err = {0};
    fm_emulator_reset(cards);
    fm_emulator_library_set(library);
    cr_assert_eq(fm_cuda_list(text, libraries, &err), 0, "%s", err.text);
    fm_emulator_library_set(&(struct fm_emulator_library){0});
}

/* Lines that hold `what`. */
static int count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)); text += strlen(what)) n++;
    return n;
}

Test(cuda_devices, every_card_says_why_it_cannot_have_cudnn)
{
    const struct fm_emulator_settings old = {.card = "gtx1060", .cards = 2};
    struct fm_text text = {0};
    list(&text, true, &old, &(struct fm_emulator_library){.cudnn = 91900});
    cr_expect_eq(count(text.data, no_code), 2, "%s", text.data);
    cr_expect_eq(count(text.data, "cuda:"), 2, "%s", text.data);
    cr_expect(strstr(text.data, "cuda:0") < strstr(text.data, no_code) &&
                  strstr(text.data, no_code) < strstr(text.data, "cuda:1"),
              "%s", text.data);
    text.size = 0;
    list(&text, true, &old, &(struct fm_emulator_library){.cudnn = 91002});
    cr_expect(!strstr(text.data, "no cuDNN") && strstr(text.data, " cuDNN 91002, cuBLAS "), "%s", text.data);
    text.size = 0;
    list(&text, true, &(struct fm_emulator_settings){.card = "h200"},
         &(struct fm_emulator_library){.cudnn = 91900});
    cr_expect(!strstr(text.data, "no cuDNN") && strstr(text.data, " cuDNN 91900, cuBLAS "), "%s", text.data);
    fm_text_fini(&text);
}

Test(cuda_devices, libraries_are_not_opened_unasked)
{
    struct fm_text text = {0};
    list(&text, false, &(struct fm_emulator_settings){.card = "gtx1060"},
         &(struct fm_emulator_library){.cudnn = 91900});
    cr_expect(strstr(text.data, "cuda:0") && !strstr(text.data, "cuDNN") && !strstr(text.data, "cuBLAS"),
              "%s", text.data);
    fm_text_fini(&text);
}

Test(cuda_devices, an_old_cublas_is_said_to_be_there_for_cudnn)
{
    struct fm_text text = {0};
    list(&text, true, &(struct fm_emulator_settings){0},
         &(struct fm_emulator_library){.old_blas = 1, .cudnn = 7605});
    cr_expect(strstr(text.data, " cuDNN 7605 (cuBLAS ") &&
                  strstr(text.data, "for cuDNN only, cuDNN 7.6.5 in"),
              "%s", text.data);
    cr_expect(strstr(text.data, "is too old for products") && strstr(text.data, "own kernels compute them\n"),
              "%s", text.data);
    fm_text_fini(&text);
}

/* ---- plans ---- */

enum { N = 4, ROWS = 60 };

/* The explained plan and the plan's calls of libraries, of a net with large convolutions and dense layers. */
static void explain(struct fm_text *text, struct fm_text *choices, const char *card, int kernels,
                    const struct fm_emulator_library *library)
{
    static float x[N * ROWS];
    static const uint32_t classes[N] = {0, 1, 1, 0};
    const struct ts_examples examples = {.n = N,
                                         .rows = ROWS,
                                         .channels = 1,
                                         .x = x,
                                         .nclasses = 2,
                                         .classes = classes,
                                         .width = 1,
                                         .train = 2};
    const struct fm_device_options options = {.lanes = 1, .kernels = kernels};
    const struct fm_emulator_settings settings = {.card = card};
    struct ts_bench bench;
    fm_emulator_reset(&settings);
    fm_emulator_library_set(library);
    cr_assert(
        ts_bench_open_with(&bench, &examples,
                           "model: [{conv1d: {filters: 64, kernel_size: 3}},\n"
                           "  {conv1d: {filters: 64, kernel_size: 9}}, flatten, {dense: {units: 256}},\n"
                           "  {dense: {units: 2, activation: softmax}}]\n"
                           "train: {loss: sparse_categorical_crossentropy, batch_size: 8}\n",
                           &fm_backend_cuda, &options),
        "%s", bench.error.text);
    struct fm_error err = {0};
    cr_assert_eq(fm_cuda_explain(bench.device, bench.program, 8, text, &err), 0, "%s", err.text);
    cr_assert_eq(fm_cuda_plan_choices(bench.device, bench.program, 8, choices, &err), 0, "%s", err.text);
    fm_text_add_string(choices, "");
    ts_bench_close(&bench);
    fm_emulator_library_set(&(struct fm_emulator_library){0});
}

static void check_explained(const char *card, int kernels, const struct fm_emulator_library *library,
                            const char *reason, bool convolutions, bool products)
{
    struct fm_text text = {0}, choices = {0};
    explain(&text, &choices, card, kernels, library);
    const char *chosen = choices.size ? choices.data : "";
    if (reason)
        cr_expect_eq(count(text.data, reason), 1, "'%s' in:\n%s", reason, text.data);
    else
        cr_expect(!strstr(text.data, "no cuDNN") && !strstr(text.data, "too old") &&
                      !strstr(text.data, "--kernels"),
                  "%s", text.data);
    cr_expect_eq(strstr(chosen, "conv1d_1/kernel forward") != NULL, convolutions, "%s", chosen);
    cr_expect_eq(strstr(chosen, "dense/kernel forward") != NULL, products, "%s", chosen);
    fm_text_fini(&text);
    fm_text_fini(&choices);
}

Test(cuda_devices, a_plan_without_cudnn_says_why)
{
    check_explained("gtx1060", FM_KERNELS_LIBRARY, &(struct fm_emulator_library){.cudnn = 91900}, no_code,
                    false, true);
    check_explained("gtx1060", FM_KERNELS_LIBRARY, &(struct fm_emulator_library){0}, NULL, true, true);
    check_explained("gtx1060", FM_KERNELS_OWN, &(struct fm_emulator_library){.cudnn = 91900}, NULL, false,
                    false);
}

/* CUDA 10. */
Test(cuda_devices, a_plan_with_an_old_cublas_has_cudnn_s_convolutions_and_own_products)
{
    check_explained("gtx1060", FM_KERNELS_LIBRARY,
                    &(struct fm_emulator_library){.old_blas = 1, .cudnn = 7605}, "is too old for products",
                    true, false);
}

Test(cuda_devices, a_cudnn_without_code_gives_way_to_one_that_has_it)
{
    struct fm_text text = {0};
    const struct fm_emulator_settings old = {.card = "gtx1060"}, new = {.card = "h200"};
    const struct fm_emulator_library both = {.cudnn = 91900, .behind = 8907};
    list(&text, true, &old, &both);
    cr_expect(!strstr(text.data, "no cuDNN") && strstr(text.data, " cuDNN 8907, cuBLAS ") &&
                  strstr(text.data, "cuDNN 8.9.7 in"),
              "%s", text.data);
    text.size = 0;
    list(&text, true, &new, &both); /* this card needs no other than the first */
    cr_expect(strstr(text.data, " cuDNN 91900, cuBLAS ") && !strstr(text.data, "8907"), "%s", text.data);
    text.size = 0;
    list(&text, true, &old,
         &(struct fm_emulator_library){.cudnn = 91900, .behind = 91100}); /* nor has that */
    cr_expect(strstr(text.data, no_code) && strstr(text.data, " cuDNN 91900, cuBLAS "), "%s", text.data);
    fm_text_fini(&text);
}
