/* Which routines this processor runs, and which of them are used. */
#include "engine/cpu/kernels.h"

#include <string.h>

#include "base/error.h"

int fm_kernels_available(const struct fm_kernels *kernels[3])
{
    int count = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    /* What -march=x86-64-v3 and -v4 let the compiler use; virtual machines may hide any of it. */
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    if (v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd"))
        kernels[count++] = &fm_kernels_avx512;
    if (v3) kernels[count++] = &fm_kernels_avx2;
#endif
    kernels[count++] = &fm_kernels_portable;
    return count;
}

int fm_kernels_choose(const struct fm_kernels **kernels, const char *name, struct fm_error *err)
{
    const struct fm_kernels *list[3];
    const int count = fm_kernels_available(list);
    *kernels = list[0];
    if (!name || !*name) return 0;
    for (int i = 0; i < count; i++)
        if (!strcmp(name, list[i]->name)) {
            *kernels = list[i];
            return 0;
        }
    if (!strcmp(name, "avx512") || !strcmp(name, "avx2"))
        return fm_fail(err, FM_EUSAGE, "FOLDMILL_ISA=%s: this processor lacks it; the best it has is %s",
                       name, list[0]->name);
    return fm_fail(err, FM_EUSAGE, "FOLDMILL_ISA=%s is unknown: choose avx512, avx2 or %s", name,
                   fm_kernels_portable.name);
}
