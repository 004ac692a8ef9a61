/* Which examples a step takes, in the order of its pass, and where their windows lie: worked out for at least
 * 1,024 places at a time, so that small batches cost no more an example than large ones, and a pure function
 * of the step, so that requests may jump to any one. */
#include "engine/host/host.h"

#include "base/memory.h"

enum { AHEAD = 1024 };

int64_t fm_order_room(int64_t batch, int64_t capacity)
{
    const int64_t batches = (AHEAD + batch - 1) / batch;
    return batch * batches > capacity ? batch * batches : capacity;
}

bool fm_order_init(struct fm_lane *lane)
{
    struct fm_order *order = &lane->order;
    const size_t room = (size_t)fm_order_room(lane->options.batch, lane->layout.capacity);
    order->example = fm_calloc(room, sizeof *order->example);
    order->weight = fm_calloc(room, sizeof *order->weight);
    order->slab = fm_calloc(room, sizeof *order->slab);
    if (!order->example || !order->weight || !order->slab) return false;
    for (size_t i = 0; i < room; i++) order->weight[i] = 1;
    order->weighted = lane->data->weights || lane->options.hyper.class_weights;
    order->pass_steps = (lane->fold->train.count + lane->options.batch - 1) / lane->options.batch;
    fm_order_reset(lane);
    return true;
}

void fm_order_fini(struct fm_lane *lane)
{
    fm_free(lane->order.example);
    fm_free(lane->order.weight);
    fm_free(lane->order.slab);
}

void fm_order_reset(struct fm_lane *lane)
{
    struct fm_order *order = &lane->order;
    order->steps = order->count = 0;
    lane->n = lane->ahead = 0;
    lane->example = order->example;
    lane->weight = order->weight;
    lane->slab = order->slab;
}

static double weight_of(const struct fm_lane *lane, int64_t example)
{
    double weight = 1;
    if (lane->data->weights)
        weight = fm_example_weight(lane->data, fm_example_anchor(lane->examples, example));
    if (lane->options.hyper.class_weights)
        weight *= lane->options.hyper.class_weights[fm_lane_class(lane, example)];
    return weight;
}

/* Places first .. first + count - 1 of a pass, as members of the training set. */
static void take_places(const struct fm_lane *lane, int64_t pass, int64_t first, int64_t count,
                        int64_t *members)
{
    const struct fm_indexset *set = &lane->fold->train;
    if (lane->options.hyper.shuffle) {
        struct fm_permutation order;
        fm_permutation_init(&order, (uint64_t)set->count, lane->shuffle_key, (uint32_t)pass);
        if (lane->executor->permute)
            lane->executor->permute(lane->device, &order, (uint64_t)first, count, (uint64_t *)members);
        else
            fm_permutation_many(&order, (uint64_t)first, count, (uint64_t *)members);
    } else {
        for (int64_t i = 0; i < count; i++) members[i] = first + i;
    }
    fm_indexset_at_many(set, members, count, members);
}

/* From step s on, whole batches, at most to the end of its pass. */
static void fill(struct fm_lane *lane, int64_t s)
{
    struct fm_order *order = &lane->order;
    const int64_t batch = lane->options.batch, pass = s / order->pass_steps;
    const int64_t first = s % order->pass_steps * batch, left = lane->fold->train.count - first;
    const int64_t most = (AHEAD + batch - 1) / batch * batch;
    order->first_step = s;
    order->count = left < most ? left : most;
    order->steps = (order->count + batch - 1) / batch;
    take_places(lane, pass, first, order->count, order->example);
    fm_view_slabs(lane->view, order->example, order->count, !lane->options.hyper.shuffle, order->slab);
    for (int64_t i = 0; order->weighted && i < order->count; i++)
        order->weight[i] = weight_of(lane, order->example[i]);
}

void fm_order_take(struct fm_lane *lane, int64_t s)
{
    struct fm_order *order = &lane->order;
    if (s < order->first_step || s - order->first_step >= order->steps) fill(lane, s);
    const int64_t batch = lane->options.batch, at = (s - order->first_step) * batch;
    lane->step = s;
    lane->n = order->count - at < batch ? order->count - at : batch;
    lane->ahead = order->count - at - lane->n;
    lane->example = order->example + at;
    lane->weight = order->weight + at;
    lane->slab = order->slab + at;
}
