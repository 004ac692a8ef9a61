/* Convolutions by cuDNN and products by cuBLAS, with the emulator's stand-ins: results against sums in
 * double, the rules by which algorithms are chosen, what is refused, what happens when calls fail - and that
 * the stand-ins notice each mistake that they are there for. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cuda/library_rig.h"
#include "support/tolerance.h"

static uint64_t state = 1;
static float draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(state >> 33) / (double)(1u << 30) - 1);
}
static float *drawn(size_t n)
{
    float *values = fm_malloc(n, sizeof *values);
    cr_assert_not_null(values);
    for (size_t i = 0; i < n; i++) values[i] = draw();
    return values;
}

/* ---- convolutions against sums in double ---- */

struct conv_case {
    int in_rows, in_channels, out_channels, taps, stride, dilation, groups, before, after, examples;
    int x_more, y_more; /* floats between examples beside what they need */
};
static const struct conv_case conv_cases[] = {
    {1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0},      {7, 3, 5, 3, 1, 1, 1, 1, 1, 2, 0, 0},
    {9, 4, 8, 4, 1, 1, 1, 1, 2, 3, 8, 16},     {13, 2, 6, 3, 2, 1, 1, 0, 0, 2, 0, 0},
    {14, 6, 9, 5, 3, 1, 3, 2, 2, 2, 6, 0},     {17, 3, 4, 3, 1, 4, 1, 4, 4, 2, 0, 4},
    {15, 8, 8, 3, 2, 2, 8, 2, 2, 1, 0, 0},     {11, 4, 12, 2, 5, 3, 2, 0, 0, 4, 4, 12},
    {6, 5, 7, 6, 1, 1, 1, 0, 0, 2, 0, 0},      {10, 1, 3, 5, 4, 1, 1, 4, 0, 2, 0, 0},
    {40, 16, 24, 7, 1, 1, 1, 3, 3, 5, 32, 24}, {12, 2, 2, 1, 3, 1, 2, 0, 0, 3, 0, 0},
};
enum { CONV_CASES = sizeof conv_cases / sizeof conv_cases[0] };

static struct fm_cuda_conv conv_of(const struct conv_case *c)
{
    const int padded = c->in_rows + c->before + c->after, span = (c->taps - 1) * c->dilation + 1;
    return (struct fm_cuda_conv){.in_rows = c->in_rows,
                                 .in_channels = c->in_channels,
                                 .out_rows = (padded - span) / c->stride + 1,
                                 .out_channels = c->out_channels,
                                 .taps = c->taps,
                                 .stride = c->stride,
                                 .dilation = c->dilation,
                                 .groups = c->groups,
                                 .pad = c->before};
}

/* Calls `each` for every product of the convolution with the places of its three numbers; x counts from row
 * -pad. */
struct places {
    size_t x, w, y;
    bool real; /* x is no halo */
};
static void for_products(const struct conv_case *c, int x_example, int y_example,
                         void (*each)(void *context, struct places at), void *context)
{
    const struct fm_cuda_conv v = conv_of(c);
    const struct fm_cuda_weights strides = fm_dnn_weights(&v);
    const int in = c->in_channels / c->groups, out = c->out_channels / c->groups;
    for (int n = 0; n < c->examples; n++)
        for (int o = 0; o < v.out_rows; o++)
            for (int f = 0; f < c->out_channels; f++)
                for (int j = 0; j < c->taps; j++)
                    for (int i = 0; i < in; i++) {
                        const int row = o * c->stride + j * c->dilation;
                        struct places at;
                        at.x = (size_t)(n * x_example + row * c->in_channels + f / out * in + i);
                        at.w = (size_t)(j * strides.tap + i * strides.in + f * strides.out);
                        at.y = (size_t)(n * y_example + o * c->out_channels + f);
                        at.real = row >= c->before && row < c->before + c->in_rows;
                        each(context, at);
                    }
}
struct operands {
    float *x, *w, *y;
    double *sum;
};
static void add_forward(void *context, struct places at)
{
    struct operands *o = context;
    o->sum[at.y] += (double)o->x[at.x] * o->w[at.w];
}
static void add_input_grad(void *context, struct places at)
{
    struct operands *o = context;
    o->sum[at.x] += (double)o->y[at.y] * o->w[at.w];
}
static void add_weight_grad(void *context, struct places at)
{
    struct operands *o = context;
    o->sum[at.w] += (double)o->x[at.x] * o->y[at.y];
}

/* Marks what a direction must write (1), may write (2: the halo of dx), and leaves the rest 0. */
static void mark(const struct conv_case *c, enum fm_dnn_direction direction, int x_example, int y_example,
                 size_t w_size, char *marks)
{
    const struct fm_cuda_conv v = conv_of(c);
    if (direction == FM_DNN_WEIGHT_GRAD) {
        memset(marks, 1, w_size);
        return;
    }
    const bool forward = direction == FM_DNN_FORWARD;
    const int rows = forward ? v.out_rows : c->before + c->in_rows + c->after;
    const int width = forward ? c->out_channels : c->in_channels;
    for (int n = 0; n < c->examples; n++)
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < width; i++) {
                const bool real = forward || (r >= c->before && r < c->before + c->in_rows);
                marks[n * (forward ? y_example : x_example) + r * width + i] = real ? 1 : 2;
            }
}

static void check_conv(struct rig *r, const struct conv_case *c, enum fm_dnn_direction direction, int number)
{
    const struct fm_cuda_conv v = conv_of(c);
    const int padded = c->before + c->in_rows + c->after;
    const int x_example = padded * c->in_channels + c->x_more;
    const int y_example = v.out_rows * c->out_channels + c->y_more;
    const size_t sizes[3] = {(size_t)c->examples * x_example,
                             (size_t)c->taps * (c->in_channels / c->groups) * c->out_channels,
                             (size_t)c->examples * y_example};
    float *host[3], *device[3];
    r->used = FM_LIBRARY_WORKSPACE;
    for (int i = 0; i < 3; i++) {
        host[i] = drawn(sizes[i]);
        device[i] = take(r, sizes[i]);
    }
    for (int n = 0; n < c->examples; n++) /* the halo */
        for (int k = 0; k < padded * c->in_channels; k++)
            if (k < c->before * c->in_channels || k >= (c->before + c->in_rows) * c->in_channels)
                host[0][n * x_example + k] = 0;
    const int out = direction == FM_DNN_FORWARD ? 2 : direction == FM_DNN_INPUT_GRAD ? 0 : 1;
    for (int i = 0; i < 3; i++)
        if (i != out) fm_emulator_poke(device[i], host[i], sizes[i] * sizeof(float));
    for (size_t i = 0; i < sizes[out]; i++) host[out][i] = NAN; /* beta = 0 reads nothing */
    fm_emulator_poke(device[out], host[out], sizes[out] * sizeof(float));
    double *sum = fm_calloc(sizes[out], sizeof *sum);
    char *marks = fm_calloc(sizes[out], 1);
    cr_assert(sum && marks);

    struct fm_error err = {0};
    char why[256] = "";
    struct fm_dnn_call *call;
    int status = fm_dnn_call_new(&call, &r->device, r->card, direction, &v, padded, c->examples, x_example,
                                 y_example, -1, why, sizeof why, &err);
    cr_assert_eq(status, 0, "case %d, direction %d: %s%s", number, (int)direction, why, err.text);
    cr_assert(fm_dnn_call_workspace(call) <= FM_LIBRARY_WORKSPACE);
    status = fm_dnn_call_run(&r->device, r->card, call, r->stream, device[0], device[1], device[2], r->arena,
                             &err);
    cr_assert_eq(status, 0, "%s", err.text);
    fm_dnn_call_free(&r->device, call);
    fm_emulator_peek(host[out], device[out], sizes[out] * sizeof(float));

    struct operands operands = {host[0], host[1], host[2], sum};
    void (*const adds[])(void *, struct places) = {add_forward, add_input_grad, add_weight_grad};
    for_products(c, x_example, y_example, adds[direction], &operands);
    mark(c, direction, x_example, y_example, sizes[1], marks);
    for (size_t i = 0; i < sizes[out]; i++) {
        if (marks[i] == 0) cr_assert(isnan(host[out][i]), "case %d: %zu was written", number, i);
        if (marks[i] != 1) continue;
        const double got = host[out][i];
        const struct ts_worst w = ts_compare(TS_FLOAT, &got, &sum[i], 1);
        cr_assert(w.ok, "case %d, direction %d, %zu: %s", number, (int)direction, i, w.text);
    }
    for (int i = 0; i < 3; i++) fm_free(host[i]);
    fm_free(sum);
    fm_free(marks);
}

Test(library, convolutions_in_all_directions)
{
    struct rig r;
    rig_start(&r, &(struct fm_emulator_settings){.policy = FM_EMULATOR_RANDOM, .seed = 3});
    for (int i = 0; i < CONV_CASES; i++)
        for (int d = FM_DNN_FORWARD; d <= FM_DNN_WEIGHT_GRAD; d++)
            check_conv(&r, &conv_cases[i], (enum fm_dnn_direction)d, i);
    rig_stop(&r, "convolutions");
}

/* Two convolutions may share a tensor with more rows around it than one of them needs. */
Test(library, a_wider_halo_than_needed)
{
    struct rig r;
    rig_start(&r, NULL);
    const struct conv_case c = {9, 4, 5, 3, 1, 1, 1, 1, 1, 1, 0, 0};
    const struct fm_cuda_conv v = conv_of(&c);
    char why[256] = "";
    struct fm_error err = {0};
    for (int d = FM_DNN_FORWARD; d <= FM_DNN_WEIGHT_GRAD; d++) {
        struct fm_dnn_call *call;
        cr_assert_eq(fm_dnn_call_new(&call, &r.device, r.card, (enum fm_dnn_direction)d, &v, 20, 2, 80,
                                     v.out_rows * 5, -1, why, sizeof why, &err),
                     0, "%s%s", why, err.text);
        fm_dnn_call_free(&r.device, call);
        cr_assert_eq(fm_dnn_call_new(&call, &r.device, r.card, (enum fm_dnn_direction)d, &v, 10, 2, 80,
                                     v.out_rows * 5, -1, why, sizeof why, &err),
                     FM_EINTERNAL, "a row is missing");
        cr_assert_null(call);
        err.code = 0;
    }
    rig_stop(&r, "halo");
}

/* ---- products ---- */

static void check_product(struct rig *r, bool ta, bool tb, int m, int n, int k, int more)
{
    const int lda = (ta ? m : k) + more, ldb = (tb ? k : n) + 2 * more, ldc = n + 3 * more;
    const size_t sizes[3] = {(size_t)lda * (ta ? k : m), (size_t)ldb * (tb ? n : k), (size_t)ldc * m};
    float *host[3], *device[3];
    r->used = FM_LIBRARY_WORKSPACE;
    for (int i = 0; i < 3; i++) {
        host[i] = drawn(sizes[i]);
        if (i == 2)
            for (size_t j = 0; j < sizes[2]; j++) host[2][j] = NAN;
        device[i] = take(r, sizes[i]);
        fm_emulator_poke(device[i], host[i], sizes[i] * sizeof(float));
    }
    struct fm_error err = {0};
    const struct fm_blas_shape shape = {ta, tb, m, n, k, lda, ldb, ldc};
    cr_assert_eq(fm_blas_product(&r->device, r->card, r->stream, &shape, device[0], device[1], device[2],
                                 r->arena, &err),
                 0, "%s", err.text);
    fm_emulator_peek(host[2], device[2], sizes[2] * sizeof(float));
    for (int i = 0; i < m; i++)
        for (int j = 0; j < ldc; j++) {
            const double got = host[2][i * ldc + j];
            double sum = 0;
            if (j >= n) {
                cr_assert(isnan(got), "what lies between the rows was written");
                continue;
            }
            for (int l = 0; l < k; l++)
                sum +=
                    (double)host[0][ta ? l * lda + i : i * lda + l] * host[1][tb ? j * ldb + l : l * ldb + j];
            const struct ts_worst w = ts_compare(TS_FLOAT, &got, &sum, 1);
            cr_assert(w.ok, "%d%d %d x %d x %d: %s", ta, tb, m, n, k, w.text);
        }
    for (int i = 0; i < 3; i++) fm_free(host[i]);
}

Test(library, products_of_all_kinds)
{
    static const int shapes[][4] = {{1, 1, 1, 0}, {3, 5, 7, 0}, {17, 2, 9, 3}, {1, 33, 4, 1}, {20, 1, 64, 0}};
    struct rig r;
    rig_start(&r, NULL);
    for (int s = 0; s < 5; s++)
        for (int kind = 0; kind < 4; kind++)
            check_product(&r, kind & 1, kind & 2, shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3]);
    struct fm_error err = {0};
    const struct fm_blas_shape narrow = {false, false, 2, 3, 4, 3, 3, 3};
    cr_assert_eq(fm_blas_product(&r.device, r.card, r.stream, &narrow, NULL, NULL, NULL, NULL, &err),
                 FM_EINTERNAL, "rows are shorter than the matrix is wide");
    rig_stop(&r, "products");
}

/* ---- which algorithm ---- */

static const struct conv_case usual = {9, 4, 8, 3, 1, 1, 1, 1, 1, 2, 0, 0};

static int new_call(struct rig *r, struct fm_dnn_call **call, enum fm_dnn_direction direction,
                    const struct conv_case *c, int algorithm, char *why, size_t why_size,
                    struct fm_error *err)
{
    const struct fm_cuda_conv v = conv_of(c);
    const int padded = c->before + c->in_rows + c->after;
    return fm_dnn_call_new(call, &r->device, r->card, direction, &v, padded, c->examples,
                           padded * c->in_channels, v.out_rows * c->out_channels, algorithm, why, why_size,
                           err);
}

/* What may be chosen from the stand-in's answers, whatever their order. */
static bool fit(enum fm_dnn_direction direction, int algorithm)
{
    return direction == FM_DNN_FORWARD ? algorithm == 0 || algorithm == 1 : algorithm == 1;
}

Test(library, the_first_algorithm_that_keeps_the_rules)
{
    bool seen[2] = {false};
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct rig r;
        rig_start(&r, &(struct fm_emulator_settings){.seed = seed});
        for (int d = FM_DNN_FORWARD; d <= FM_DNN_WEIGHT_GRAD; d++) {
            const enum fm_dnn_direction direction = (enum fm_dnn_direction)d;
            char why[256] = "";
            struct fm_error err = {0};
            struct fm_dnn_call *first, *second;
            cr_assert_eq(new_call(&r, &first, direction, &usual, -1, why, sizeof why, &err), 0, "%s", why);
            cr_assert_eq(new_call(&r, &second, direction, &usual, -1, why, sizeof why, &err), 0, "%s", why);
            const int algorithm = fm_dnn_call_algorithm(first);
            cr_assert(fit(direction, algorithm), "%d in direction %d", algorithm, d);
            cr_assert_eq(fm_dnn_call_algorithm(second), algorithm, "asked twice, answered alike");
            cr_assert(fm_dnn_call_workspace(first) <= FM_LIBRARY_WORKSPACE);
            if (direction == FM_DNN_FORWARD) seen[algorithm] = true;
            fm_dnn_call_free(&r.device, first);
            fm_dnn_call_free(&r.device, second);
        }
        rig_stop(&r, "choice");
    }
    cr_assert(seen[0] && seen[1], "the order of the answers decides");
}

Test(library, the_algorithm_that_is_on_record)
{
    struct rig r;
    rig_start(&r, NULL);
    for (int d = FM_DNN_FORWARD; d <= FM_DNN_WEIGHT_GRAD; d++)
        for (int algorithm = 0; algorithm < 12; algorithm++) {
            char why[256] = "";
            struct fm_error err = {0};
            struct fm_dnn_call *call;
            const int status =
                new_call(&r, &call, (enum fm_dnn_direction)d, &usual, algorithm, why, sizeof why, &err);
            cr_assert_eq(status, fit((enum fm_dnn_direction)d, algorithm) ? 0 : 1, "%d %d", d, algorithm);
            if (status)
                cr_assert(call == NULL && strstr(why, "does not offer"), "%s", why);
            else
                cr_assert_eq(fm_dnn_call_algorithm(call), algorithm);
            fm_dnn_call_free(&r.device, call);
        }
    rig_stop(&r, "record");
}

Test(library, no_algorithm_and_no_answer_mean_own_kernels)
{
    static const struct fm_emulator_library worlds[] = {{.no_choice = 1}, {.no_getters = 1}};
    static const char *const reasons[] = {"deterministic", "NOT_SUPPORTED"};
    for (int w = 0; w < 2; w++) {
        struct rig r;
        rig_start(&r, NULL);
        fm_emulator_library_set(&worlds[w]);
        for (int d = FM_DNN_FORWARD; d <= FM_DNN_WEIGHT_GRAD; d++) {
            char why[256] = "";
            struct fm_error err = {0};
            struct fm_dnn_call *call;
            cr_assert_eq(new_call(&r, &call, (enum fm_dnn_direction)d, &usual, -1, why, sizeof why, &err), 1);
            cr_assert(strstr(why, reasons[w]), "%s", why);
        }
        fm_emulator_library_set(&(struct fm_emulator_library){0});
        rig_stop(&r, "no choice");
    }
}

Test(library, cudnn_7_has_no_fma_math_to_ask_for)
{
    fm_emulator_library_set(&(struct fm_emulator_library){.cudnn = 7605});
    struct rig r;
    rig_start(&r, NULL);
    cr_assert_eq(r.device.libraries->cudnn, 7605);
    cr_assert(strstr(r.device.libraries->from, "cuDNN 7.6.5"), "%s", r.device.libraries->from);
    check_conv(&r, &conv_cases[1], FM_DNN_FORWARD, 1);
    rig_stop(&r, "cuDNN 7");
    fm_emulator_library_set(&(struct fm_emulator_library){0});
}

/* ---- refusals ---- */

static void refused(const struct fm_emulator_library *world, int cuda_major, bool blas, const char *reason)
{
    fm_emulator_library_set(world);
    struct fm_cuda_libraries *libraries;
    struct fm_error err = {0};
    char why[400];
    cr_assert_eq(fm_libraries_open(&libraries, cuda_major, 0, why, sizeof why, &err), 0);
    cr_assert(libraries->dnn == NULL && libraries->cudnn == 0, "%s", reason);
    cr_assert_eq(libraries->blas != NULL, blas, "%s", reason);
    cr_assert_eq(libraries->cublas != 0, blas);
    cr_assert(strstr(why, reason), "%s", why);
    fm_libraries_free(libraries);
    fm_emulator_library_set(&(struct fm_emulator_library){0});
}

Test(library, refusals_say_why)
{
    const struct fm_emulator_library plain = {0};
    fm_emulator_reset(&(struct fm_emulator_settings){.no_library = true});
    refused(&plain, MAJOR, false, "no cuBLAS");
    fm_emulator_reset(NULL);
    refused(&plain, MAJOR - 1, false, "name the right one's folder in FOLDMILL_LIBDIRS");
    refused(&(struct fm_emulator_library){.built_for = (MAJOR - 1) * 1000}, MAJOR, true,
            "in the emulator was built for CUDA 12");
    refused(&(struct fm_emulator_library){.cudnn = 7501}, MAJOR, true, "older than 7.6");
    char small[9];
    struct fm_cuda_libraries *libraries;
    cr_assert_eq(fm_libraries_open(&libraries, MAJOR - 1, 0, small, sizeof small, NULL), 0);
    cr_assert_str_eq(small, "no cuBLA");
    fm_libraries_free(libraries);
    nothing_wrong("refusals");
}

/* CUDA 10: products are ours, convolutions are cuDNN's. */
Test(library, an_old_cublas_only_opens_the_way_for_cudnn)
{
    struct rig r;
    struct fm_error err = {0};
    fm_emulator_reset(NULL);
    fm_emulator_library_set(&(struct fm_emulator_library){.old_blas = 1, .cudnn = 7605});
    cr_assert_eq(rig_open(&r, &err), 0, "%s", err.text);
    const struct fm_cuda_libraries *libraries = r.device.libraries;
    cr_assert(libraries->dnn && r.card->dnn && libraries->cudnn == 7605, "%s", r.device.why_no_library);
    cr_assert(!libraries->blas && !r.card->blas && !libraries->cublas);
    cr_assert(strstr(libraries->from, "for cuDNN only, cuDNN 7.6.5"), "%s", libraries->from);
    cr_assert(strstr(r.device.why_no_library, "too old for products"), "%s", r.device.why_no_library);
    check_conv(&r, &conv_cases[1], FM_DNN_FORWARD, 1);
    rig_stop(&r, "old cuBLAS");
    refused(&(struct fm_emulator_library){.old_blas = 1, .built_for = (MAJOR - 1) * 1000}, MAJOR, false,
            "own kernels compute them; no cuDNN: version");
}

Test(library, versions_without_code_for_the_card)
{
    static const struct {
        int cudnn, sm;
        const char *reason;
    } cases[] = {{91900, 61, "install 9.10.2"}, {91002, 61, NULL}, {8907, 35, "install 8.7.0"},
                 {91900, 35, "install 8.7.0"},  {8700, 35, NULL},  {91900, 75, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fm_emulator_reset(NULL);
        fm_emulator_library_set(&(struct fm_emulator_library){.cudnn = cases[i].cudnn});
        struct rig r;
        struct fm_error err = {0};
        cr_assert_eq(rig_open(&r, &err), 0);
        fm_library_handles_close(&r.device, r.card);
        r.device.kind.major = cases[i].sm / 10;
        r.device.kind.minor = cases[i].sm % 10;
        r.device.why_no_library[0] = '\0';
        cr_assert_eq(fm_library_handles_open(&r.device, r.card, &err), 0);
        cr_assert_not_null(r.card->blas);
        cr_assert_eq(r.card->dnn == NULL, cases[i].reason != NULL, "%d on %d", cases[i].cudnn, cases[i].sm);
        if (cases[i].reason)
            cr_assert(strstr(r.device.why_no_library, cases[i].reason), "%s", r.device.why_no_library);
        rig_stop(&r, "versions");
    }
    fm_emulator_library_set(&(struct fm_emulator_library){0});
}

Test(library, variables_that_change_results_are_unset)
{
    static const char *const gone[] = {"NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG",
                                       "CUBLASLT_LOG_LEVEL", "CUDNN_LOGINFO_DBG",
                                       "CUBLAS_EMULATION_STRATEGY"};
    static const char *const stay[] = {"FOLDMILL_CUDNN_", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"};
    for (int i = 0; i < 5; i++) cr_assert_eq(setenv(gone[i], "1", 1), 0);
    for (int i = 0; i < 3; i++) cr_assert_eq(setenv(stay[i], "0", 1), 0);
    fm_emulator_reset(NULL);
    struct fm_cuda_libraries *libraries;
    struct fm_error err = {0};
    char why[256];
    cr_assert_eq(fm_libraries_open(&libraries, MAJOR, 0, why, sizeof why, &err), 0);
    for (int i = 0; i < 5; i++) cr_assert_null(getenv(gone[i]), "%s", gone[i]);
    for (int i = 0; i < 3; i++) cr_assert_not_null(getenv(stay[i]), "%s", stay[i]);
    fm_libraries_free(libraries);
}

/* ---- failures ---- */

static int work(struct rig *r, struct fm_dnn_call *calls[3], bool *told, struct fm_error *err)
{
    int status = rig_open(r, err);
    if (r->device.why_no_library[0]) *told = true;
    float *x = NULL, *w = NULL, *y = NULL;
    if (!status) {
        x = take(r, 1 << 10);
        w = take(r, 1 << 10);
        y = take(r, 1 << 10);
    }
    for (int d = FM_DNN_FORWARD; !status && d <= FM_DNN_WEIGHT_GRAD; d++) {
        char why[256] = "";
        status = new_call(r, &calls[d], (enum fm_dnn_direction)d, &usual, -1, why, sizeof why, err);
        if (why[0]) *told = true; /* another algorithm, or none */
        if (!status)
            status = fm_dnn_call_run(&r->device, r->card, calls[d], r->stream, x, w, y, r->arena, err);
        if (status == 1) status = 0;
    }
    if (!status && r->card->blas)
        status =
            fm_blas_product(&r->device, r->card, r->stream,
                            &(struct fm_blas_shape){false, false, 8, 8, 8, 8, 8, 8}, x, w, y, r->arena, err);
    if (!status) status = fm_cuda_check(&r->device, cudaStreamSynchronize(r->stream), err, "wait");
    return status;
}

static void fail_in_turn(struct fm_emulator_settings settings)
{
    int64_t call = 0;
    for (bool failed = true; failed;) {
        settings.fail_call = ++call;
        fm_emulator_reset(&settings);
        struct rig r;
        struct fm_error err = {0};
        struct fm_emulator_counts before, after;
        bool told = false;
        struct fm_dnn_call *calls[3] = {NULL};
        const int status = work(&r, calls, &told, &err);
        fm_emulator_count(&before);
        const bool by_now = before.calls >= call;
        if (status) {
            cr_assert(status == FM_EDEVICE || status == FM_ENOMEM || status == FM_ELIBRARY, "%d", status);
            cr_assert(err.code == status && err.text[0], "call %d gave no reason", (int)call);
        }
        cr_assert(status || told || !by_now, "call %d failed unheard", (int)call);
        for (int d = 0; d < 3; d++) fm_dnn_call_free(&r.device, calls[d]);
        rig_close(&r);
        fm_emulator_count(&after);
        cr_assert_eq(after.faults, 0, "call %d: %s", (int)call, fm_emulator_fault());
        /* What is left is what CUDA itself would not give back. */
        if (!settings.fail_sticky) cr_assert_leq(after.live, by_now ? 0 : 2, "call %d", (int)call);
        failed = after.calls >= call;
    }
    cr_assert_gt(call, 60, "%d calls", (int)call);
}

Test(library, every_call_failed_in_turn)
{
    fail_in_turn((struct fm_emulator_settings){.seed = 1});
    fail_in_turn((struct fm_emulator_settings){.seed = 2, .fail_status = 2});
    fail_in_turn((struct fm_emulator_settings){.seed = 3, .fail_sticky = true});
}

/* The libraries hide CUDA's errors; a broken context is found all the same, and left alone from then on. */
Test(library, a_broken_context_is_found_behind_a_status)
{
    struct rig r;
    rig_start(&r, NULL);
    struct fm_emulator_counts counts;
    fm_emulator_count(&counts);
    fm_emulator_set(&(struct fm_emulator_settings){.fail_call = counts.calls + 2, .fail_sticky = true});
    struct fm_error err = {0};
    const struct fm_blas_shape one = {false, false, 1, 1, 1, 1, 1, 1};
    float *x = take(&r, 16);
    cr_assert_eq(fm_blas_product(&r.device, r.card, r.stream, &one, x, x + 4, x + 8, r.arena, &err),
                 FM_EDEVICE);
    cr_assert(r.device.lost && r.device.dead, "%s", err.text);
    cr_assert_eq(fm_blas_product(&r.device, r.card, r.stream, &one, x, x + 4, x + 8, r.arena, &err),
                 FM_EDEVICE);
    rig_close(&r);
    fm_emulator_count(&counts);
    cr_assert_eq(counts.calls_after_loss, 0);
    cr_assert_eq(counts.faults, 0, "%s", fm_emulator_fault());
}

Test(library, want_of_memory_is_told_apart)
{
    struct rig r;
    rig_start(&r, NULL);
    struct fm_emulator_counts counts;
    fm_emulator_count(&counts);
    fm_emulator_set(&(struct fm_emulator_settings){.fail_call = counts.calls + 2, .fail_status = 4003});
    char why[256] = "";
    struct fm_error err = {0};
    struct fm_dnn_call *call;
    cr_assert_eq(new_call(&r, &call, FM_DNN_FORWARD, &usual, -1, why, sizeof why, &err), FM_ENOMEM);
    cr_assert(!r.device.lost && strstr(err.text, "memory"), "%s", err.text);
    rig_stop(&r, "memory");
}

/* Both libraries in a graph that is launched twice: the second time with other inputs. */
Test(library, calls_can_be_captured)
{
    struct rig r;
    rig_start(&r, &(struct fm_emulator_settings){.policy = FM_EMULATOR_RANDOM, .seed = 5});
    struct fm_error err = {0};
    char why[256];
    struct fm_dnn_call *call;
    cr_assert_eq(new_call(&r, &call, FM_DNN_FORWARD, &usual, -1, why, sizeof why, &err), 0, "%s", why);
    float *x = take(&r, 88), *w = take(&r, 96), *y = take(&r, 144), *z = take(&r, 64);
    float values[144];
    const struct fm_blas_shape product = {false, true, 8, 8, 16, 16, 16, 8};
    for (int turn = 0; turn < 2; turn++) { /* the first is the run before */
        if (turn) cr_assert_eq(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal), 0);
        cr_assert_eq(fm_dnn_call_run(&r.device, r.card, call, r.stream, x, w, y, r.arena, &err), 0, "%s",
                     err.text);
        cr_assert_eq(fm_blas_product(&r.device, r.card, r.stream, &product, y, y + 16, z, r.arena, &err), 0,
                     "%s", err.text);
    }
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cr_assert_eq(cudaStreamEndCapture(r.stream, &graph), cudaSuccess);
    cr_assert_eq(cudaGraphInstantiateWithFlags(&exec, graph, 0), cudaSuccess);
    for (int turn = 1; turn < 3; turn++) {
        for (int i = 0; i < 96; i++) values[i] = (float)turn;
        fm_emulator_poke(x, values, 88 * sizeof(float));
        for (int i = 0; i < 96; i++) values[i] = 1;
        fm_emulator_poke(w, values, 96 * sizeof(float));
        cr_assert_eq(cudaGraphLaunch(exec, r.stream), cudaSuccess);
        fm_emulator_peek(values, y, 144 * sizeof(float));
        for (int i = 0; i < 144; i++) cr_assert_eq(values[i], (float)(12 * turn));
        fm_emulator_peek(values, z, 64 * sizeof(float));
        for (int i = 0; i < 64; i++) cr_assert_eq(values[i], (float)(16 * 144 * turn * turn));
    }
    cr_assert_eq(cudaGraphExecDestroy(exec), cudaSuccess);
    cr_assert_eq(cudaGraphDestroy(graph), cudaSuccess);
    fm_dnn_call_free(&r.device, call);
    rig_stop(&r, "graph");
}
