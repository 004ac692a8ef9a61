/* The routines for AVX-512; the Makefile gives this file the compiler's flags for it. */
#if defined(__x86_64__)
#define FM_TABLE       fm_kernels_avx512
#define FM_ISA_NAME    "avx512"
#define FM_ISA_NUMBERS "cpu-fma"
#include "engine/cpu/all.inc"
#endif
typedef int fm_avx512_is_not_empty; /* on other processors */
