/* What the files of this folder share. The Makefile compiles each of them once per instruction set, with
 * FM_ISA set to its name; a file includes the routines of one kind (../NAME.inc), which are static there, and
 * exports the ones that table.c lists. One file a kind, so that a change compiles little.
 *
 * A new routine: its member in kernels.h, its body in an .inc file, FM_EXPORT here, FM_ENTRY in table.c. */
#ifndef FM_ENGINE_CPU_ISA_H
#define FM_ENGINE_CPU_ISA_H

#include "engine/cpu/kernels.h"
#include "engine/cpu/vec.h"

#define FM_JOIN_(a, b, c) a##_##b##_##c
#define FM_JOIN(a, b, c)  FM_JOIN_(a, b, c)
/* fm_avx2_product: the name of a routine outside its file. */
#define FM_ISA_SYMBOL(name) FM_JOIN(fm, FM_ISA, name)

#define FM_DECLARE(name) extern __typeof__(*((struct fm_kernels *)0)->name) FM_ISA_SYMBOL(name)
#define FM_EXPORT(name)  FM_DECLARE(name) __attribute__((alias(#name)))

#endif
