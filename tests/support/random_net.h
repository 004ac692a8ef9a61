/* Random small networks on random data, of every operation, loss and odd size: a function of kind and seed.
 */
#ifndef FM_TESTS_RANDOM_NET_H
#define FM_TESTS_RANDOM_NET_H

#include "base/text.h"
#include "support/bench.h"

enum ts_net_kind {
    TS_NET_SMOOTH, /* few examples and channels; only operations without kinks, plain adam: for differences */
    TS_NET_KINKS,  /* the same with relu, max pools, mae... */
    TS_NET_ANY     /* all sizes that an engine may treat in its own way: widths round multiples of 16, windows
                      longer than 256, batches up to 70 with a smaller last one, all optimizers and clips,
                      scaled and zero-padded windows. Steps are well-conditioned: epsilon is not tiny. */
};

struct ts_random_net {
    enum ts_net_kind kind;
    struct ts_examples examples;
    struct fm_text yaml; /* model and train; batch size 1 .. n */
    float *x, *values, *weights, class_weights[8], shift[96], factor[96];
    uint8_t *letters;
    uint32_t *classes;
    bool weighted; /* class_weights are meant to be used */
    bool kinks;    /* relu, max pools, mae...: not smooth everywhere */
};

/* False when memory is out. Not every network compiles (a pool may leave nothing): take the next seed then.
 */
bool ts_random_net_init(struct ts_random_net *net, uint64_t seed, enum ts_net_kind kind);
void ts_random_net_fini(struct ts_random_net *net);

#endif
