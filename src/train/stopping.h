/* When a run stops and which epoch's weights are kept: Keras's EarlyStopping (semantics.md 4.3) and
 * Prechelt's rules (4.4). A pure function of the history: replaying the recorded epochs rebuilds the state
 * after a resume. A value that is not finite is never an improvement. Epochs count from 1 here. */
#ifndef FM_TRAIN_STOPPING_H
#define FM_TRAIN_STOPPING_H

#include "config/sweep.h"

#define FM_MAX_STRIP 1024

struct fm_stopping {
    const struct fm_train_config *config;
    bool maximize;
    bool off;           /* the fold cannot define the monitor */
    int64_t epoch;      /* seen so far */
    int64_t best_epoch; /* whose weights are kept when the rule restores; 0 = none yet */
    double best;
    int64_t wait;
    /* Prechelt */
    double strip[FM_MAX_STRIP]; /* training losses of the current strip */
    double strip_end;           /* E_va at the end of the last strip */
    int64_t rises;              /* successive strips that ended higher */
};

struct fm_verdict {
    bool improved; /* keep this epoch's weights (before the next epoch starts) */
    bool stop;     /* after this epoch */
};

void fm_stopping_init(struct fm_stopping *s, const struct fm_train_config *config);
/* One epoch's training loss and monitored value. The first epoch that is seen is always `improved` where
 * Keras keeps it as the first best weights. */
struct fm_verdict fm_stopping_epoch(struct fm_stopping *s, double train_loss, double monitored);
/* Whether the kept weights are put back at the end. */
bool fm_stopping_restores(const struct fm_stopping *s);

#endif
