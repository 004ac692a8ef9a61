/* The routines for every processor: nothing but the compiler's vectors of four floats (SSE2 on x86-64). On
 * aarch64 the products are fused, which is a class of numbers of its own. */
#define FM_TABLE fm_kernels_portable
#if defined(__aarch64__)
#define FM_ISA_NAME    "neon"
#define FM_ISA_NUMBERS "cpu-neon"
#else
#define FM_ISA_NAME    "portable"
#define FM_ISA_NUMBERS "cpu-portable"
#endif
#include "engine/cpu/all.inc"
