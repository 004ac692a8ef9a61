#include "data/dataset.h" /* FM_NO_LETTER */
#include "engine/cpu/isa/isa.h"

#include "engine/cpu/convolve.inc"
#include "engine/cpu/convolve_grad.inc"
#include "engine/cpu/letters.inc"
#include "engine/cpu/narrow_copy.inc"
#include "engine/cpu/narrow.inc"

FM_EXPORT(conv_pool);
FM_EXPORT(conv_pool_grad);
FM_EXPORT(letters);
FM_EXPORT(letters_grad);
FM_EXPORT(narrow);
FM_EXPORT(narrow_weights);
FM_EXPORT(narrow_turn);
FM_EXPORT(narrow_input);
