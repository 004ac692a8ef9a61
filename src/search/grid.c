/* The grid: an odometer over the parameters' values, in the order of the file, the last fastest. */
#include "search/candidates.h"

void fm_grid_values(const struct fm_space *space, const int64_t *digits, struct fm_drawn *drawn,
                    const struct fm_node **values)
{
    for (size_t i = 0; i < space->count; i++) {
        fm_parameter_at(&space->items[i], digits[i], &drawn[i]);
        values[i] = drawn[i].value;
    }
}

/* Combinations that agree in all used parameters are one trial. Those between the present one and the next
 * value of the last used parameter differ in unused ones only, so they are stepped over; others that come to
 * the same trial are found by their key. */
bool fm_grid_advance(const struct fm_space *space, int64_t *digits, const bool *used)
{
    size_t i = space->count;
    while (i > 0 && !used[i - 1]) digits[--i] = 0;
    while (i > 0) {
        i--;
        if (++digits[i] < space->items[i].count) return true;
        digits[i] = 0;
    }
    return false;
}
