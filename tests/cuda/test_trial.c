/* What a library's call is tried on, and how far two results are from each other, on the device against plain
 * loops on the host. */
#include <float.h>

#include "cuda/tensors.h"

TestSuite(cuda_trial, .timeout = 60);

static struct on_device device;

/* The last has more elements than all threads of the largest grid. */
static const struct shape shapes[] = {
    {1, 1, 1, 0}, {3, 1, 7, 2}, {5, 9, 3, 0}, {2, 31, 33, 5}, {3, 300, 301, 4}};
enum { SHAPES = sizeof shapes / sizeof *shapes, ORDERS = 3 };

static struct fm_cuda_place begin(const struct shape *s, int order)
{
    const struct fm_cuda_lane idle = {.control = {.activity = FM_CUDA_IDLE}};
    on_device_open(&device, order);
    return on_device_lane(&device, &idle, FM_CUDA_IDLE, s->count);
}

/* All in [-1, 1), spread evenly, the same in each order and with any distance between examples; other numbers
 * with another salt; nothing between examples. */
Test(cuda_trial, numbers)
{
    for (int i = 0; i < SHAPES; i++)
        for (int order = 0; order < ORDERS; order++) {
            const struct shape *s = &shapes[i];
            const struct shape packed = {s->count, s->rows, s->channels, 0};
            const struct fm_cuda_place place = begin(s, order);
            struct draws draws = draws_from(1);
            struct piece x = tensor_new(&device, &draws, s, 0, 0),
                         y = tensor_new(&device, &draws, &packed, 0, 0),
                         z = tensor_new(&device, &draws, s, 0, 0);
            const int count = s->rows * s->channels;
            cr_assert_eq(fm_cuda_trial_fill(place, count, tensor_of(&x, s), 1), cudaSuccess);
            cr_assert_eq(fm_cuda_trial_fill(place, count, tensor_of(&y, &packed), 1), cudaSuccess);
            cr_assert_eq(fm_cuda_trial_fill(place, count, tensor_of(&z, s), 2), cudaSuccess);
            cr_assert_eq(cudaStreamSynchronize(device.stream), cudaSuccess);
            on_device_get(x.host, x.device, x.bytes);
            on_device_get(y.host, y.device, y.bytes);
            on_device_get(z.host, z.device, z.bytes);
            const float *a = x.host, *b = y.host, *c = z.host;
            double sum = 0, squares = 0, product = 0;
            for (int n = 0; n < s->count; n++) {
                for (int e = 0; e < count; e++) {
                    const float v = a[shape_at(s, n, e)];
                    cr_assert(v >= -1 && v < 1);
                    cr_assert_eq(v, b[shape_at(&packed, n, e)]);
                    sum += v;
                    squares += (double)v * v;
                    product += (double)v * c[shape_at(s, n, e)];
                }
                for (int e = count; e < shape_example(s); e++) cr_assert(isnan(a[shape_at(s, n, e)]));
            }
            const double total = (double)s->count * count;
            if (total > 1000) {
                const double far = 4 / sqrt(total);
                cr_expect(fabs(sum / total) < far && fabs(squares / total - 1.0 / 3) < far, "%g %g",
                          sum / total, squares / total);
                cr_expect(fabs(product / total) < far, "%g", product / total);
            }
            free(x.host);
            free(y.host);
            free(z.host);
            on_device_close(&device);
        }
}

/* One element is off, by something or by no number at all; what lies between examples is NaN and not read. */
Test(cuda_trial, differences)
{
    static const float by[] = {0, 0.25f, -3, NAN, INFINITY};
    for (int i = 0; i < SHAPES * 5; i++) {
        const struct shape *s = &shapes[i / 5];
        const struct fm_cuda_place place = begin(s, i % ORDERS);
        struct draws draws = draws_from(i);
        struct piece x = tensor_new(&device, &draws, s, 0, 1), y = piece_new(&device, x.host, x.bytes);
        unsigned zero = 0, bits;
        unsigned *largest = on_device_put(&device, &zero, sizeof zero);
        const int count = s->rows * s->channels;
        float *b = y.host;
        const int at = shape_at(s, draw(&draws, 0, s->count - 1), draw(&draws, 0, count - 1));
        const float before = b[at];
        b[at] += by[i % 5];
        fm_emulator_poke(y.device, y.host, y.bytes);
        float want = fabsf(b[at] - before), got;
        if (!(want <= FLT_MAX)) want = INFINITY;
        cr_assert_eq(fm_cuda_trial_compare(place, count, tensor_of(&x, s), tensor_of(&y, s), largest),
                     cudaSuccess);
        cr_assert_eq(cudaStreamSynchronize(device.stream), cudaSuccess);
        on_device_get(&bits, largest, sizeof bits);
        memcpy(&got, &bits, sizeof got);
        cr_expect_eq(got, want, "%d: %g %g", i, (double)got, (double)want);
        free(x.host);
        free(y.host);
        on_device_close(&device);
    }
}
