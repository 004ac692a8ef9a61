/* What a core reaches at most. */
#include "engine/cpu/cpu.h"

#include <time.h>

/* Seconds of a stretch: short, so that on a busy machine some run undisturbed. */
#define STRETCH 1e-3
#define CHUNKS  20

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double fm_cpu_peak(const struct fm_device *device, double seconds)
{
    const struct fm_kernels *kernels = device->engine;
    const double began = now(), wanted = seconds / CHUNKS < STRETCH ? seconds / CHUNKS : STRETCH;
    int64_t rounds = 1024;
    double best = 0;
    do {
        double flops;
        const double at = now();
        volatile float keep = kernels->peak(rounds, &flops);
        (void)keep;
        const double took = now() - at;
        if (took < wanted && now() - began < seconds && rounds < INT64_MAX / 2) {
            rounds *= 2;
            continue;
        }
        if (flops > best * took && took > 0) best = flops / took;
    } while (now() - began < seconds || best == 0);
    return best;
}
