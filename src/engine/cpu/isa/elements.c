#include "engine/cpu/isa/isa.h"

#include "engine/cpu/mathematics.inc"
#include "engine/cpu/softmax.inc"
#include "engine/cpu/activation.inc"
#include "engine/cpu/head.inc"
#include "engine/cpu/pool.inc"
#include "engine/cpu/random.inc"

FM_EXPORT(activation);
FM_EXPORT(activation_grad);
FM_EXPORT(pool);
FM_EXPORT(pool_grad);
FM_EXPORT(dropout);
FM_EXPORT(head);
FM_EXPORT(scale);
FM_EXPORT(permute);
