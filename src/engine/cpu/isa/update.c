#include "engine/cpu/isa/isa.h"

#include "engine/cpu/update.inc"

FM_EXPORT(square_sum);
FM_EXPORT(regularize);
FM_EXPORT(magnitudes);
FM_EXPORT(sgd);
FM_EXPORT(adam);
FM_EXPORT(rmsprop);
