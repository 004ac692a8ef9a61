/* Plans of the CUDA backend: which sizes they take. */
#include <criterion/criterion.h>
#include <string.h>

#include "cuda.h"
#include "emulator/emulator.h"
#include "emulator/library.h"
#include "support/bench.h"

static const struct fm_backend *const cuda = &fm_backend_cuda;

enum { N = 4, ROWS = 2000 };

static void open_bench(struct ts_bench *bench, const char *network)
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
    const struct fm_device_options options = {.lanes = 1};
    const struct fm_emulator_settings settings = {0};
    fm_emulator_reset(&settings);
    cr_assert(ts_bench_open_with(bench, &examples, network, cuda, &options), "%s", bench->error.text);
}

/* A dense layer of 2.4 million weights: the batch has nothing to do with their number. */
Test(cuda_plan, large_layers_do_not_count_once_an_example)
{
    struct ts_bench bench;
    char why[300] = "";
    open_bench(&bench, "model: [flatten, {dense: {units: 1200}}, {dense: {units: 2, activation: softmax}}]\n"
                       "train: {loss: sparse_categorical_crossentropy, batch_size: 512}\n");
    cr_assert(cuda->supports(bench.device, bench.program, 512, why, sizeof why), "%s", why);
    ts_bench_close(&bench);
}

Test(cuda_plan, tensors_that_ints_cannot_count_are_refused)
{
    struct ts_bench bench;
    char why[300] = "";
    open_bench(&bench, "model: [{conv1d: {filters: 64, kernel_size: 3, padding: same}}, flatten,\n"
                       "  {dense: {units: 2, activation: softmax}}]\n"
                       "train: {loss: sparse_categorical_crossentropy, batch_size: 512}\n");
    cr_assert(cuda->supports(bench.device, bench.program, 16000, why, sizeof why), "%s", why);
    /* 2000 x 64 x 16777 = 2^31 - 27648; one example more is beyond. */
    cr_assert(cuda->supports(bench.device, bench.program, 16777, why, sizeof why), "%s", why);
    cr_assert(!cuda->supports(bench.device, bench.program, 16778, why, sizeof why));
    cr_assert(strstr(why, "2000 x 64") && strstr(why, "16778"), "%s", why);
    ts_bench_close(&bench);
}

/* What cuDNN's getters promise and its calls refuse costs no device: the plan has own kernels instead. */
Test(cuda_plan, a_convolution_that_cudnn_refuses_is_our_own)
{
    for (int refuses = 0; refuses < 2; refuses++) {
        struct ts_bench bench;
        struct fm_text text = {0};
        struct fm_error err = {0};
        const struct fm_emulator_library library = {.refuses = refuses};
        fm_emulator_library_set(&library);
        open_bench(
            &bench,
            "model: [{conv1d: {filters: 64, kernel_size: 3}}, {conv1d: {filters: 64, kernel_size: 9}},\n"
            "  flatten, {dense: {units: 2, activation: softmax}}]\n"
            "train: {loss: sparse_categorical_crossentropy, batch_size: 8}\n");
        cr_assert_eq(cuda->plan_choices(bench.device, bench.program, 8, &text, &err), 0, "%s", err.text);
        const bool chosen = text.size && strstr(text.data, "conv1d_1/kernel forward");
        cr_assert_eq(chosen, !refuses, "%s", text.size ? text.data : "nothing");
        fm_text_fini(&text);
        ts_bench_close(&bench);
    }
    fm_emulator_library_set(&(struct fm_emulator_library){0});
}
