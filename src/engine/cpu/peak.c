/* What a core reaches at most. */
#include "engine/cpu/cpu.h"

#include "base/machine.h"

/* Seconds of a stretch: short, so that on a busy machine some run undisturbed. */
#define STRETCH 1e-3
#define CHUNKS  20
/* Stretches at least: a core that was taken away for all of the time has shown nothing yet. */
#define LEAST 10

double fm_cpu_peak(const struct fm_device *device, double seconds)
{
    const struct fm_kernels *kernels = device->engine;
    const double began = fm_monotonic(), wanted = seconds / CHUNKS < STRETCH ? seconds / CHUNKS : STRETCH;
    int64_t rounds = 1024;
    double best = 0;
    int stretches = 0;
    do {
        double flops;
        const double at = fm_monotonic();
        volatile float keep = kernels->peak(rounds, &flops);
        (void)keep;
        const double took = fm_monotonic() - at;
        if (took < wanted && rounds < INT64_MAX / 2) {
            rounds *= 2;
            continue;
        }
        stretches++;
        if (flops > best * took && took > 0) best = flops / took;
    } while (fm_monotonic() - began < seconds || stretches < LEAST || best == 0);
    return best;
}
