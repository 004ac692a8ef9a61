/* Names of what is public: measures and states. */
#include "config/sweep.h"
#include "foldmill.h"

#include <string.h>

_Static_assert(FM_MEASURES == 1 + 2 * FM_METRICS, "loss, then each metric of the inner part and of the fold");

/* In the order of enum fm_metric, which is the order of the journal's columns. */
#define PART(part)                                                                                           \
    part "_loss", part "_accuracy", part "_balanced_accuracy", part "_auc", part "_pr_auc",                  \
        part "_precision", part "_recall", part "_f1", part "_macro_f1", part "_mcc", part "_mse",           \
        part "_mae", part "_r2"

static const char *const names[FM_MEASURES] = {"loss", PART("inner"), PART("val")};

const char *fm_measure_name(int measure)
{
    return measure >= 0 && measure < FM_MEASURES ? names[measure] : NULL;
}

int fm_measure_find(const char *name)
{
    for (int i = 0; name && i < FM_MEASURES; i++)
        if (!strcmp(names[i], name)) return i;
    return -1;
}

const char *fm_state_name(enum fm_state state)
{
    switch (state) {
    case FM_STATE_COMPLETED: return "completed";
    case FM_STATE_PRUNED: return "pruned";
    case FM_STATE_FAILED: return "failed";
    case FM_STATE_INVALID: return "invalid";
    case FM_STATE_PENDING: return "pending";
    case FM_STATE_RUNNING: return "running";
    }
    return "unknown";
}
