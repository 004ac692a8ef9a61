/* The table of one instruction set. */
#include "engine/cpu/isa/isa.h"

/* clang-format off */
#define FM_LIST(X)                                                                                           \
    X(product) X(dots) X(column_sums) X(transpose) X(peak)                                                   \
    X(conv_pool) X(conv_pool_grad) X(letters) X(letters_grad)                                                \
    X(narrow) X(narrow_weights) X(narrow_turn) X(narrow_input)                                               \
    X(activation) X(activation_grad) X(pool) X(pool_grad) X(dropout) X(head) X(scale) X(permute)             \
    X(square_sum) X(regularize) X(magnitudes) X(sgd) X(adam) X(rmsprop)               \
    X(norm_sums) X(norm_squares) X(norm_apply) X(norm_grad_sums) X(norm_grad)                                \
    X(layer_norm) X(layer_norm_grad)
/* clang-format on */

#define FM_DECLARED(name) FM_DECLARE(name);
FM_LIST(FM_DECLARED)

#if W == 4 && defined(__aarch64__)
#define NAME    "neon" /* products are fused there, which is a class of numbers of its own */
#define NUMBERS "cpu-neon"
#elif W == 4
#define NAME    "portable"
#define NUMBERS "cpu-portable"
#elif W == 8
#define NAME    "avx2"
#define NUMBERS "cpu-fma"
#else
#define NAME    "avx512"
#define NUMBERS "cpu-fma"
#endif

#define FM_ENTRY(name) .name = FM_ISA_SYMBOL(name),

const struct fm_kernels FM_JOIN(fm, kernels,
                                FM_ISA) = {.name = NAME, .numbers = NUMBERS, .width = W, FM_LIST(FM_ENTRY)};
