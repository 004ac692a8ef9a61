/* The emulator's stand-ins for cuDNN and cuBLAS: each mistake that they are there for is noticed, and what is
 * none is not. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/library_rig.h"

static int64_t faults(void)
{
    struct fm_emulator_counts counts;
    fm_emulator_count(&counts);
    return counts.faults;
}
/* A call that was a mistake: one fault more, and no success. Its line on stderr would look like a failed
 * test, so it is not shown. */
static int quiet;
static void mistake_begin(void)
{
    fflush(stderr);
    quiet = dup(STDERR_FILENO);
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
}
static void mistake_end(int64_t before, int status, const char *which)
{
    dup2(quiet, STDERR_FILENO);
    close(quiet);
    cr_assert_gt(faults(), before, "%s was not seen", which);
    cr_assert_neq(status, 0, "%s was let through", which);
}
#define MISTAKE(which, call)                                                                                 \
    do {                                                                                                     \
        const int64_t before_ = faults();                                                                    \
        mistake_begin();                                                                                     \
        const int status_ = (call);                                                                          \
        mistake_end(before_, status_, which);                                                                \
    } while (0)

/* cuDNN's own calls on a convolution of 2 x 6 x 4 by 8 kernels of 3. */
struct bare {
    const struct fm_dnn_table *dnn;
    struct fm_dnn_handle *handle;
    struct fm_dnn_tensor *x, *y;
    struct fm_dnn_filter *w;
    struct fm_dnn_convolution *conv;
    float *xs, *ws, *ys;
    float alpha, beta;
};
static void bare_open(struct bare *b, struct rig *r)
{
    *b = (struct bare){.dnn = r->device.libraries->dnn, .handle = r->card->dnn, .alpha = 1};
    int bad = b->dnn->tensor_create(&b->x) | b->dnn->tensor_create(&b->y) | b->dnn->filter_create(&b->w) |
              b->dnn->convolution_create(&b->conv);
    bad |= b->dnn->tensor_set(b->x, FM_DNN_FLOAT, 2, 4, 1, 6, 24, 1, 24, 4);
    bad |= b->dnn->tensor_set(b->y, FM_DNN_FLOAT, 2, 8, 1, 4, 32, 1, 32, 8);
    bad |= b->dnn->filter_set(b->w, FM_DNN_FLOAT, FM_DNN_NHWC, 8, 4, 1, 3);
    bad |= b->dnn->convolution_set(b->conv, 0, 0, 1, 1, 1, 1, FM_DNN_CROSS_CORRELATION, FM_DNN_FLOAT);
    bad |= b->dnn->convolution_math(b->conv, FM_DNN_FMA_MATH);
    bad |= b->dnn->set_stream(b->handle, r->stream);
    cr_assert_eq(bad, 0);
    b->xs = take(r, 48);
    b->ws = take(r, 96);
    b->ys = take(r, 64);
    float ones[96];
    for (int i = 0; i < 96; i++) ones[i] = 1;
    fm_emulator_poke(b->xs, ones, 48 * sizeof(float));
    fm_emulator_poke(b->ws, ones, 96 * sizeof(float));
}
static void bare_close(struct bare *b)
{
    cr_assert_eq(b->dnn->tensor_destroy(b->x), 0);
    cr_assert_eq(b->dnn->tensor_destroy(b->y), 0);
    cr_assert_eq(b->dnn->filter_destroy(b->w), 0);
    cr_assert_eq(b->dnn->convolution_destroy(b->conv), 0);
}
static int bare_run(const struct bare *b, int algorithm, void *workspace, size_t bytes)
{
    return b->dnn->forward(b->handle, &b->alpha, b->x, b->xs, b->w, b->ws, b->conv, algorithm, workspace,
                           bytes, &b->beta, b->y, b->ys);
}
enum { ENOUGH = 16 << 10 };

Test(library_mistakes, with_memory)
{
    struct rig r;
    struct bare b;
    rig_start(&r, NULL);
    bare_open(&b, &r);
    cr_assert_eq(bare_run(&b, 1, r.arena, ENOUGH), 0);
    MISTAKE("a workspace too small", bare_run(&b, 1, r.arena, 64));
    MISTAKE("no workspace", bare_run(&b, 1, NULL, ENOUGH));
    MISTAKE("a workspace at an odd place", bare_run(&b, 1, r.arena + 64, ENOUGH));
    MISTAKE("a workspace over an input", bare_run(&b, 1, b.xs, ENOUGH));
    struct bare wrong = b;
    wrong.xs = (float *)(r.arena + ARENA) - 47;
    MISTAKE("an input that ends behind its allocation", bare_run(&wrong, 0, NULL, 0));
    wrong = b;
    wrong.ys = (float *)malloc(256);
    MISTAKE("host memory", bare_run(&wrong, 0, NULL, 0));
    free(wrong.ys);
    wrong.ys = b.xs + 44;
    MISTAKE("an output over an input", bare_run(&wrong, 0, NULL, 0));
    wrong = b;
    wrong.ws = b.ws + 1;
    MISTAKE("kernels at an odd place", bare_run(&wrong, 0, NULL, 0));
    char *gone;
    cr_assert_eq(cudaMalloc((void **)&gone, 4096), cudaSuccess);
    cr_assert_eq(cudaFree(gone), cudaSuccess);
    wrong = b;
    wrong.xs = (float *)gone;
    MISTAKE("memory that was freed", bare_run(&wrong, 0, NULL, 0));
    bare_close(&b);
    rig_close(&r);
}

/* An arena is one allocation: what its program deals out of it counts. */
Test(library_mistakes, with_pieces)
{
    struct rig r;
    struct bare b;
    float seen[48];
    rig_start(&r, NULL);
    bare_open(&b, &r);
    struct bare wrong = b;
    fm_emulator_piece_take(b.ws, 96 * sizeof(float));
    fm_emulator_piece_take(b.ys, 64 * sizeof(float));
    MISTAKE("an input that nobody took", bare_run(&b, 0, NULL, 0));
    fm_emulator_piece_take(b.xs, 48 * sizeof(float));
    cr_assert_eq(bare_run(&b, 0, NULL, 0), 0);
    wrong.xs = b.xs + 4;
    MISTAKE("an input that runs into the next piece", bare_run(&wrong, 0, NULL, 0));
    MISTAKE("a workspace that nobody took", bare_run(&b, 1, r.arena, ENOUGH));
    fm_emulator_piece_take(r.arena, ENOUGH);
    cr_assert_eq(bare_run(&b, 1, r.arena, ENOUGH), 0);
    fm_emulator_piece_part(b.ys, 60 * sizeof(float));
    MISTAKE("an output that runs out of its tensor", bare_run(&b, 0, NULL, 0));
    fm_emulator_piece_part(b.ys, 64 * sizeof(float));
    cr_assert_eq(bare_run(&b, 0, NULL, 0), 0, "larger ones may share the room");
    fm_emulator_piece_part(b.xs + 16, 32 * sizeof(float));
    MISTAKE("an input that begins in no tensor", bare_run(&b, 0, NULL, 0));
    fm_emulator_piece_give(b.xs);
    MISTAKE("an input that was given back", bare_run(&b, 0, NULL, 0));
    MISTAKE("an upload to what was given back", cudaMemsetAsync(b.xs, 0, 4, r.stream) != cudaSuccess);
    const float before[2] = {1, 1};
    fm_emulator_piece_take(b.xs, 48 * sizeof(float));
    fm_emulator_peek(seen, b.xs, sizeof seen);
    for (int i = 0; i < 48; i++) cr_assert(isnan(seen[i]), "%d: %g is left", i, (double)seen[i]);
    fm_emulator_peek(seen, b.ws, sizeof before);
    cr_assert(!memcmp(seen, before, sizeof before), "the neighbour is not touched");
    bare_close(&b);
    rig_close(&r);
}

Test(library_mistakes, with_descriptors)
{
    struct rig r;
    struct bare b;
    rig_start(&r, NULL);
    bare_open(&b, &r);
    struct bare wrong = b;
    MISTAKE("an algorithm that adds with atomics",
            b.dnn->backward_filter(b.handle, &b.alpha, b.x, b.xs, b.y, b.ys, b.conv, 3, r.arena, ENOUGH,
                                   &b.beta, b.w, b.ws));
    MISTAKE("an algorithm that was not offered", bare_run(&b, 6, r.arena, ENOUGH));
    MISTAKE("an algorithm with a huge workspace", bare_run(&b, 4, r.arena, ENOUGH));
    cr_assert_eq(b.dnn->tensor_create(&wrong.y), 0);
    MISTAKE("a descriptor that was not set", bare_run(&wrong, 0, NULL, 0));
    b.dnn->tensor_set(wrong.y, FM_DNN_FLOAT, 2, 8, 1, 5, 40, 1, 40, 8);
    MISTAKE("an output of too many rows", bare_run(&wrong, 0, NULL, 0));
    b.dnn->tensor_set(wrong.y, FM_DNN_FLOAT, 2, 8, 1, 4, 32, 4, 4, 1);
    MISTAKE("an output that is not channels-last", bare_run(&wrong, 0, NULL, 0));
    cr_assert_eq(b.dnn->tensor_destroy(wrong.y), 0);
    MISTAKE("a descriptor that is gone", bare_run(&wrong, 0, NULL, 0));
    MISTAKE("the same destroyed twice", b.dnn->tensor_destroy(wrong.y));
    wrong = b;
    cr_assert_eq(b.dnn->filter_create(&wrong.w), 0);
    cr_assert_eq(b.dnn->filter_set(wrong.w, FM_DNN_FLOAT, 0, 8, 4, 1, 3), 0);
    MISTAKE("kernels in another order", bare_run(&wrong, 0, NULL, 0));
    cr_assert_eq(b.dnn->filter_destroy(wrong.w), 0);
    wrong = b;
    cr_assert_eq(b.dnn->convolution_create(&wrong.conv), 0);
    MISTAKE("padding", b.dnn->convolution_set(wrong.conv, 0, 1, 1, 1, 1, 1, 1, 0));
    cr_assert_eq(b.dnn->convolution_set(wrong.conv, 0, 0, 1, 1, 1, 1, 1, 0), 0);
    MISTAKE("math that was not set", bare_run(&wrong, 0, NULL, 0));
    MISTAKE("tensor cores", b.dnn->convolution_math(wrong.conv, FM_DNN_TENSOR_OP_MATH));
    MISTAKE("default math", b.dnn->convolution_math(wrong.conv, FM_DNN_DEFAULT_MATH));
    cr_assert_eq(b.dnn->convolution_destroy(wrong.conv), 0);
    bare_close(&b);
    rig_close(&r);
}

Test(library_mistakes, with_handles_and_streams)
{
    struct rig r;
    struct bare b;
    rig_start(&r, &(struct fm_emulator_settings){.cards = 2});
    bare_open(&b, &r);
    struct bare wrong = b;
    cr_assert_eq(b.dnn->create(&wrong.handle), 0);
    MISTAKE("no stream", bare_run(&wrong, 0, NULL, 0));
    MISTAKE("the default stream", b.dnn->set_stream(wrong.handle, NULL));
    cr_assert_eq(cudaSetDevice(1), cudaSuccess);
    MISTAKE("another card", bare_run(&b, 0, NULL, 0));
    cudaStream_t other;
    cr_assert_eq(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
    cr_assert_eq(cudaSetDevice(0), cudaSuccess);
    cr_assert_eq(b.dnn->set_stream(wrong.handle, other), 0);
    MISTAKE("another card's stream", bare_run(&wrong, 0, NULL, 0));
    cr_assert_eq(cudaStreamDestroy(other), cudaSuccess);
    MISTAKE("a stream that is gone", bare_run(&wrong, 0, NULL, 0));
    cr_assert_eq(b.dnn->destroy(wrong.handle), 0);
    MISTAKE("a handle that is gone", bare_run(&wrong, 0, NULL, 0));
    bare_close(&b);
    rig_close(&r);
}

static int bare_product(const struct fm_blas_table *blas, struct fm_blas_handle *handle, const struct bare *b)
{
    return blas->sgemm(handle, FM_BLAS_N, FM_BLAS_N, 4, 4, 4, &b->alpha, b->xs, 4, b->ws, 4, &b->beta, b->ys,
                       4);
}

Test(library_mistakes, with_cublas)
{
    struct rig r;
    struct bare b;
    rig_start(&r, NULL);
    bare_open(&b, &r);
    const struct fm_blas_table *blas = r.device.libraries->blas;
    struct fm_blas_handle *h;
    cr_assert_eq(blas->create(&h), 0);
    MISTAKE("no stream", bare_product(blas, h, &b));
    cr_assert_eq(blas->set_stream(h, r.stream), 0);
    cr_assert_eq(blas->set_workspace(h, r.arena, FM_BLAS_WORKSPACE), 0);
    MISTAKE("default math", bare_product(blas, h, &b));
    cr_assert_eq(blas->set_math(h, FM_BLAS_PEDANTIC_MATH), 0);
    cr_assert_eq(bare_product(blas, h, &b), 0);
    cr_assert_eq(blas->set_atomics(h, 1), 0);
    MISTAKE("atomics", bare_product(blas, h, &b));
    cr_assert_eq(blas->set_atomics(h, FM_BLAS_ATOMICS_NOT_ALLOWED), 0);
    cr_assert_eq(blas->set_stream(h, r.stream), 0);
    MISTAKE("the workspace that a stream takes away", bare_product(blas, h, &b));
    MISTAKE("a workspace at an odd place", blas->set_workspace(h, r.arena + 16, 4096));
    MISTAKE("a workspace over everything",
            blas->set_workspace(h, r.arena, ARENA) || bare_product(blas, h, &b));
    cr_assert_eq(blas->set_workspace(h, r.arena, FM_BLAS_WORKSPACE), 0);
    MISTAKE("columns that overlap",
            blas->sgemm(h, 0, 0, 4, 4, 4, &b.alpha, b.xs, 3, b.ws, 4, &b.beta, b.ys, 4));
    MISTAKE("an output over an input",
            blas->sgemm(h, 0, 0, 4, 4, 4, &b.alpha, b.xs, 4, b.ws, 4, &b.beta, b.ws + 8, 4));
    MISTAKE("an operand behind the end",
            blas->sgemm(h, 0, 0, 4, 4, 4, &b.alpha, (float *)(r.arena + ARENA) - 12, 4, b.ws, 4, &b.beta,
                        b.ys, 4));
    cr_assert_eq(blas->destroy(h), 0);
    MISTAKE("a handle that is gone", bare_product(blas, h, &b));
    bare_close(&b);
    rig_close(&r);
}

static int begin(struct rig *r)
{
    return cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal);
}
static void end(struct rig *r)
{
    cudaGraph_t graph = NULL;
    mistake_begin();
    cudaStreamEndCapture(r->stream, &graph);
    dup2(quiet, STDERR_FILENO);
    close(quiet);
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();
}

Test(library_mistakes, during_capture)
{
    struct rig r;
    struct bare b;
    rig_start(&r, NULL);
    bare_open(&b, &r);
    struct fm_dnn_handle *h;
    struct fm_blas_handle *g;
    cr_assert_eq(begin(&r), 0);
    MISTAKE("a handle made during capture", b.dnn->create(&h));
    end(&r);
    cr_assert_eq(begin(&r), 0);
    MISTAKE("a cuBLAS handle made during capture", r.device.libraries->blas->create(&g));
    end(&r);
    cr_assert_eq(begin(&r), 0);
    struct fm_dnn_answer answers[FM_DNN_ALGORITHMS];
    int count;
    MISTAKE("an algorithm chosen during capture",
            b.dnn->forward_algorithms(b.handle, b.x, b.w, b.conv, b.y, FM_DNN_ALGORITHMS, &count, answers));
    end(&r);
    cr_assert_eq(begin(&r), 0);
    MISTAKE("code that was never loaded", bare_run(&b, 0, NULL, 0));
    end(&r);
    bare_close(&b);
    rig_close(&r);
}

/* ---- what is no mistake ---- */

Test(library_mistakes, scalars_are_read_at_the_call_and_the_workspace_is_written_over)
{
    struct rig r;
    struct bare b;
    rig_start(&r, &(struct fm_emulator_settings){.policy = FM_EMULATOR_FIRST});
    bare_open(&b, &r);
    float out[64], space[16] = {0};
    for (int i = 0; i < 64; i++) out[i] = NAN;
    fm_emulator_poke(b.ys, out, sizeof out);
    fm_emulator_poke(r.arena, space, sizeof space);
    cr_assert_eq(bare_run(&b, 1, r.arena, ENOUGH), 0);
    b.alpha = 7;
    b.beta = 7;
    fm_emulator_peek(out, b.ys, sizeof out);
    for (int i = 0; i < 64; i++) cr_assert_eq(out[i], 12);
    fm_emulator_peek(space, r.arena, sizeof space);
    for (int i = 0; i < 16; i++) cr_assert(isnan(space[i]));
    b.alpha = 0.5f;
    b.beta = 2;
    cr_assert_eq(bare_run(&b, 0, NULL, 0), 0);
    fm_emulator_peek(out, b.ys, sizeof out);
    for (int i = 0; i < 64; i++) cr_assert_eq(out[i], 30, "beta adds: %g", (double)out[i]);
    bare_close(&b);
    rig_stop(&r, "scalars");
}
