/* Random small networks on random data, of every operation and loss, with odd sizes: a function of the seed.
 */
#ifndef FM_TESTS_RANDOM_NET_H
#define FM_TESTS_RANDOM_NET_H

#include "base/text.h"
#include "support/bench.h"

struct ts_random_net {
    struct ts_examples examples;
    struct fm_text yaml; /* model and train; batch size 1 .. n */
    float *x, *values, *weights, class_weights[8];
    uint8_t *letters;
    uint32_t *classes;
    bool weighted; /* class_weights are meant to be used */
    bool kinks;    /* relu, max pools, mae...: not smooth everywhere */
};

/* `smooth`: only operations without kinks. False when memory is out. Not every network compiles (a pool may
 * leave nothing): take the next seed then. */
bool ts_random_net_init(struct ts_random_net *net, uint64_t seed, bool smooth);
void ts_random_net_fini(struct ts_random_net *net);

#endif
