#include "engine/cpu/isa/isa.h"

#include "engine/cpu/matrix.inc"
#include "engine/cpu/products.inc"

FM_EXPORT(product);
FM_EXPORT(dots);
FM_EXPORT(column_sums);
FM_EXPORT(transpose);
FM_EXPORT(peak);
