/* Random search: draw k of every parameter follows from (seed, k, place) alone. */
#include "search/candidates.h"

void fm_random_values(const struct fm_space *space, int64_t seed, int64_t draw, struct fm_drawn *drawn,
                      const struct fm_node **values)
{
    for (size_t i = 0; i < space->count; i++) {
        fm_parameter_draw(&space->items[i], seed, draw, (uint32_t)i, &drawn[i]);
        values[i] = drawn[i].value;
    }
}
