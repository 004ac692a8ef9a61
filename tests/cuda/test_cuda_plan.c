/* Plans of the CUDA backend: which sizes they take, what they leave to libraries. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "emulator/emulator.h"
#include "emulator/library.h"
#include "support/bench.h"

static const struct fm_backend *const cuda = &fm_backend_cuda;

enum { N = 4, ROWS = 2000, FEW_ROWS = 20 };

static void open_bench_with(struct ts_bench *bench, const char *network, int64_t rows,
                            enum fm_kernels_choice kernels)
{
    static float x[N * ROWS];
    static const uint32_t classes[N] = {0, 1, 1, 0};
    for (uint32_t i = 0; i < N * ROWS; i++) x[i] = ts_hashed(i, 7, 1, 0);
    const struct ts_examples examples = {.n = N,
                                         .rows = rows,
                                         .channels = 1,
                                         .x = x,
                                         .nclasses = 2,
                                         .classes = classes,
                                         .width = 1,
                                         .train = 2};
    const struct fm_device_options options = {.lanes = 1, .kernels = kernels};
    const struct fm_emulator_settings settings = {0};
    fm_emulator_reset(&settings);
    cr_assert(ts_bench_open_with(bench, &examples, network, cuda, &options), "%s", bench->error.text);
}

static void open_bench(struct ts_bench *bench, const char *network)
{
    open_bench_with(bench, network, ROWS, FM_KERNELS_AUTO);
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

#define TWO_CONVOLUTIONS(filters, padding)                                                                   \
    "model: [{conv1d: {filters: " filters ", kernel_size: 3}},\n"                                            \
    "  {conv1d: {filters: " filters ", kernel_size: 9, padding: " padding "}}, flatten,\n"                   \
    "  {dense: {units: 2, activation: softmax}}]\n"                                                          \
    "train: {loss: sparse_categorical_crossentropy, batch_size: 8}\n"

static void open_with_libraries(struct ts_bench *bench, const struct fm_emulator_library *library,
                                const char *network)
{
    fm_emulator_library_set(library);
    open_bench_with(bench, network, FEW_ROWS, FM_KERNELS_LIBRARY);
}

/* Whether the plan has the library make this call ("conv1d_1/kernel forward"). */
static bool chosen(struct ts_bench *bench, const char *call)
{
    struct fm_text text = {0};
    struct fm_error err = {0};
    cr_assert_eq(cuda->plan_choices(bench->device, bench->program, 8, &text, &err), 0, "%s", err.text);
    const bool there = text.size && strstr(text.data, call);
    fm_text_fini(&text);
    return there;
}

static void close_with_libraries(struct ts_bench *bench)
{
    struct fm_emulator_counts counts;
    ts_bench_close(bench);
    fm_emulator_library_set(&(struct fm_emulator_library){0});
    fm_emulator_count(&counts);
    cr_assert_eq(counts.faults, 0, "%s", fm_emulator_fault());
    cr_assert_eq(counts.live, 0, "%d things of CUDA's were not given back", (int)counts.live);
}

/* What the libraries promise and their calls refuse costs no device: the plan has own kernels instead. */
Test(cuda_plan, what_a_library_refuses_is_our_own)
{
    static const char *const convolutions[] = {"conv1d_1/kernel forward", "conv1d_1/kernel input_grad",
                                               "conv1d_1/kernel weight_grad", "conv1d_1/kernel evaluate"};
    static const char *const products[] = {"dense/kernel forward", "dense/kernel input_grad",
                                           "dense/kernel weight_grad", "dense/kernel evaluate"};
    for (int refuses = 0; refuses < 4; refuses++) {
        struct ts_bench bench;
        open_with_libraries(
            &bench, &(struct fm_emulator_library){.refuses = refuses & 1, .refuses_products = refuses >> 1},
            TWO_CONVOLUTIONS("64", "valid"));
        for (int i = 0; i < 4; i++) {
            cr_assert_eq(chosen(&bench, convolutions[i]), !(refuses & 1), "%s", convolutions[i]);
            cr_assert_eq(chosen(&bench, products[i]), !(refuses >> 1), "%s", products[i]);
        }
        struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
        struct fm_report report;
        cr_assert(lane && ts_bench_train(&bench, lane, 0, 1, &report), "%s", bench.error.text);
        cuda->lane_close(lane);
        close_with_libraries(&bench);
    }
}

static const char three_convolutions[] =
    "model: [{conv1d: {filters: 32, kernel_size: 3}}, {conv1d: {filters: 32, kernel_size: 5, padding: "
    "same}},\n"
    "  {conv1d: {filters: 32, kernel_size: 3, padding: same}}, flatten,\n"
    "  {dense: {units: 2, activation: softmax}}]\n"
    "train: {loss: sparse_categorical_crossentropy, batch_size: 8, optimizer: {sgd: {learning_rate: "
    "0.01}}}\n";

enum { PARAMETERS = 32 * 3 + 32 * 32 * 5 + 32 * 32 * 3 + 3 * 32 + 18 * 32 * 2 + 2 };

static void train_three(struct ts_bench *bench, float *parameters)
{
    struct fm_lane *lane = ts_bench_lane(bench, 0, 1, NULL);
    struct fm_report report;
    cr_assert(lane && ts_bench_train(bench, lane, 0, 3, &report), "%s", bench->error.text);
    cr_assert(ts_bench_parameters(bench, lane, parameters), "%s", bench->error.text);
    cuda->lane_close(lane);
}

/* A library whose calls succeed with wrong numbers loses those calls, and training is what it is with own
 * kernels. conv1d_1 writes into a halo; conv1d_2's tensors lie without gaps, so it stays right. */
Test(cuda_plan, what_a_library_computes_wrongly_is_our_own)
{
    static const char *const directions[] = {"forward", "input_grad", "weight_grad", "evaluate"};
    static float want[PARAMETERS], got[PARAMETERS];
    struct ts_bench bench;
    open_bench_with(&bench, three_convolutions, FEW_ROWS, FM_KERNELS_OWN);
    cr_assert_eq(bench.program->float_count, PARAMETERS);
    train_three(&bench, want);
    close_with_libraries(&bench);
    for (int wrong = 0; wrong < 5; wrong++) {
        const bool convolutions = wrong < 4 && (wrong & 1), products = wrong >= 2;
        open_with_libraries(&bench,
                            &(struct fm_emulator_library){.wrong = convolutions,
                                                          .wrong_products = products && wrong < 4,
                                                          .tf32 = wrong == 4},
                            three_convolutions);
        for (int i = 0; i < 4; i++) {
            char call[64];
            snprintf(call, sizeof call, "conv1d_1/kernel %s", directions[i]);
            cr_expect_eq(chosen(&bench, call), !convolutions, "%s", call);
            snprintf(call, sizeof call, "conv1d_2/kernel %s", directions[i]);
            cr_expect(chosen(&bench, call), "%s", call);
            snprintf(call, sizeof call, "dense/kernel %s", directions[i]);
            cr_expect_eq(chosen(&bench, call), !products, "%s", call);
        }
        struct fm_text text = {0};
        cr_assert_eq(cuda->explain(bench.device, bench.program, 8, &text, NULL), 0);
        const char *said = "kernel forward: its numbers differ from Foldmill's own by ";
        cr_expect_eq(strstr(text.data, said) != NULL, wrong != 0, "%s", text.data);
        fm_text_fini(&text);
        train_three(&bench, got);
        for (int i = 0; i < PARAMETERS; i++)
            cr_assert(fabsf(got[i] - want[i]) <= 1e-4f, "wrong %d, %d: %g %g", wrong, i, (double)got[i],
                      (double)want[i]);
        close_with_libraries(&bench);
    }
}

/* Whether a plan is made does not depend on what the lanes leave: it fails instead of trusting a library. */
Test(cuda_plan, no_room_beside_lanes_is_no_trust)
{
    struct ts_bench bench;
    char why[300] = "";
    open_with_libraries(&bench, &(struct fm_emulator_library){.wrong = 1}, three_convolutions);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
    cr_assert(lane, "%s", bench.error.text);
    struct fm_arena *arena = &bench.device->cards[0].arena;
    const int64_t largest = fm_arena_largest(arena);
    size_t free_bytes, total;
    void *all = fm_arena_take(arena, largest), *rest;
    cr_assert(all);
    cr_assert_eq(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
    cr_assert_eq(cudaMalloc(&rest, free_bytes - 4096), cudaSuccess);
    cr_expect(!cuda->supports(bench.device, bench.program, 16, why, sizeof why));
    cr_expect(strstr(why, "lanes have taken"), "%s", why);
    fm_arena_give(arena, all);
    cr_assert_eq(cudaFree(rest), cudaSuccess);
    cr_expect(cuda->supports(bench.device, bench.program, 16, why, sizeof why), "%s", why);
    cuda->lane_close(lane);
    close_with_libraries(&bench);
}

/* The second convolution wants four rows of zeros around what the first one writes. With 64 filters row 0
 * lies 1,024 bytes behind the halo's beginning, with 50 it lies 800, with 33 it lies 528, with 50 filters and
 * kernels of 3 it lies 200: at no multiple of 16 bytes. */
Test(cuda_plan, cudnn_is_given_addresses_of_sixteen_bytes)
{
    static const struct {
        const char *network;
        bool first;
    } cases[] = {{TWO_CONVOLUTIONS("64", "same"), true},
                 {TWO_CONVOLUTIONS("33", "same"), true},
                 {"model: [{conv1d: {filters: 50, kernel_size: 3}},\n"
                  "  {conv1d: {filters: 50, kernel_size: 3, padding: same}}, flatten,\n"
                  "  {dense: {units: 2, activation: softmax}}]\n"
                  "train: {loss: sparse_categorical_crossentropy, batch_size: 8}\n",
                  false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ts_bench bench;
        open_with_libraries(&bench, &(struct fm_emulator_library){0}, cases[i].network);
        cr_assert_eq(chosen(&bench, "conv1d/kernel forward"), cases[i].first, "case %zu", i);
        cr_assert(chosen(&bench, "conv1d_1/kernel forward"), "case %zu", i);
        struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
        struct fm_report report;
        cr_assert(lane && ts_bench_train(&bench, lane, 0, 1, &report), "%s", bench.error.text);
        cuda->lane_close(lane);
        close_with_libraries(&bench);
    }
}

/* cudaMalloc and cudaFree wait for the lanes that compute. */
Test(cuda_plan, a_plan_made_beside_lanes_allocates_nothing)
{
    struct ts_bench bench;
    struct fm_emulator_counts before, after;
    char why[300] = "";
    open_with_libraries(&bench, &(struct fm_emulator_library){0}, TWO_CONVOLUTIONS("64", "same"));
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
    cr_assert(lane, "%s", bench.error.text);
    const struct fm_card *card = &bench.device->cards[0];
    const int64_t used = card->arena.used;
    fm_emulator_count(&before);
    cr_assert(cuda->supports(bench.device, bench.program, 16, why, sizeof why), "%s", why);
    fm_emulator_count(&after);
    cr_assert_gt(after.library_calls - before.library_calls, 8, "nothing was tried");
    cr_assert_eq(after.allocations, before.allocations);
    cr_assert_eq(card->arena.used, used, "a trial's memory was not given back");
    cuda->lane_close(lane);
    close_with_libraries(&bench);
}
