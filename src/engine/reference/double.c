/* The reference loops in double. */
typedef double real;
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

#define NAME  "reference64"
#define TYPE  "double"
#define CLASS "cpu-reference64"
#include "engine/reference/executor.inc"

const struct fm_backend fm_backend_reference64 = FM_HOST_BACKEND(NAME, backend_open);
