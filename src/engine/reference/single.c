/* The reference loops in float. */
typedef float real;
#include "engine/reference/real.h"
#include "net/print.h"

#include "engine/reference/product.inc"
#include "engine/reference/conv.inc"
#include "engine/reference/dense.inc"
#include "engine/reference/pool.inc"
#include "engine/reference/activation.inc"
#include "engine/reference/norm.inc"
#include "engine/reference/gather.inc"
#include "engine/reference/loss.inc"
#include "engine/reference/optimizer.inc"
#include "engine/reference/execute.inc"

#define NAME  "reference"
#define TYPE  "float"
#define CLASS "cpu-reference"
#include "engine/reference/executor.inc"

const struct fm_backend fm_backend_reference = FM_HOST_BACKEND(NAME, backend_open);
