/* The routines for AVX2 and FMA; the Makefile gives this file the compiler's flags for it. */
#if defined(__x86_64__)
#define FM_TABLE       fm_kernels_avx2
#define FM_ISA_NAME    "avx2"
#define FM_ISA_NUMBERS "cpu-fma"
#include "engine/cpu/all.inc"
#endif
typedef int fm_avx2_is_not_empty; /* on other processors */
