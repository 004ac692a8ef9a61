#include "engine/cpu/isa/isa.h"

#include "engine/cpu/norms.inc"

FM_EXPORT(norm_sums);
FM_EXPORT(norm_squares);
FM_EXPORT(norm_apply);
FM_EXPORT(norm_grad_sums);
FM_EXPORT(norm_grad);
FM_EXPORT(layer_norm);
FM_EXPORT(layer_norm_grad);
