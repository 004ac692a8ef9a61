/* Which part each member of a set of examples goes to: what the splitters make and folds are cut from.
 *
 * Members are the examples to be split, in order: all, or the training part of a fold (`inner`). A deal is
 * kept in the smallest form that says it: a number per member (shuffled splits), per record (groups), or
 * blocks of members one after the other (everything that keeps order). Parts are numbered from 0;
 * FM_ALWAYS_TRAIN is in the training part of every fold, FM_NOWHERE in none.
 */
#ifndef FM_DATA_DEAL_H
#define FM_DATA_DEAL_H

#include "base/random.h"
#include "data/split.h"

enum { FM_ALWAYS_TRAIN = -1, FM_NOWHERE = -2 };
#define FM_MOST_FOLDS 10000   /* of one repeat, where the data decide how many there are */
#define FM_MOST_PARTS 1000000 /* folds of all repeats */

struct fm_members {
    const struct fm_view *view;
    const struct fm_indexset *among; /* NULL: all examples */
    int64_t n;
};

/* Fold f of a deal trains on parts train_from <= p < train_to and validates val_from <= p < val_to. */
struct fm_cut {
    int64_t train_from, train_to, val_from, val_to;
};

struct fm_deal {
    int64_t folds;
    int32_t *of_member;     /* [n], or */
    int32_t *of_record;     /* [nrecords], or */
    int64_t nblocks, *ends; /* block b is the members ends[b-1] <= j < ends[b]; */
    int32_t *of_block;      /* its part */
    struct fm_cut *cuts;    /* [folds]; NULL: fold f validates part f and trains on all other parts */
    char **names;           /* [folds] or NULL */
    int64_t moved;          /* groups moved so that no fold is empty */
};
void fm_deal_fini(struct fm_deal *deal);

/* Blocks cut as numpy.array_split does: the first n % k are one longer. `of_block` is b for block b. */
int fm_deal_blocks(struct fm_deal *deal, int64_t n, int64_t nblocks, struct fm_error *err);

/* Walks a deal as ranges of members of one part. Zero-initialise. */
struct fm_deal_walk {
    int64_t next, record, block;
};
bool fm_deal_next(const struct fm_deal *deal, const struct fm_members *members, struct fm_deal_walk *walk,
                  int64_t *first, int64_t *count, int32_t *part);

/* The examples of one fold. `val` or `train` may be NULL, not both. On failure nothing is kept. */
int fm_deal_fold(const struct fm_deal *deal, const struct fm_members *members, int64_t fold,
                 struct fm_indexset *train, struct fm_indexset *val, struct fm_error *err);

/* Members of a record: [first, first + count). */
void fm_members_of_record(const struct fm_members *members, int64_t record, int64_t *first, int64_t *count);

/* ---- splitters; each fills an empty deal ---- */

struct fm_deal_request {
    const struct fm_cv_config *cv;
    enum fm_split_kind kind; /* may differ from cv's for `inner` */
    int64_t folds;
    bool shuffle;
    int64_t test_count;    /* holdout: members to validate; time_series: of each fold */
    bool inner;            /* for messages, and "its last part" of time series */
    struct fm_mt19937 *mt; /* the stream to go on with */
};

/* The error is placed at `cv` and, for `inner`, says so. Returns FM_EFILE. */
int fm_deal_fail(const struct fm_deal_request *request, struct fm_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

int fm_deal_kfold(const struct fm_deal_request *request, const struct fm_members *members,
                  struct fm_deal *deal, struct fm_error *err);
int fm_deal_stratified(const struct fm_deal_request *request, const struct fm_members *members,
                       struct fm_deal *deal, struct fm_error *err);
int fm_deal_blocked(const struct fm_deal_request *request, const struct fm_members *members,
                    struct fm_deal *deal, struct fm_error *err);
int fm_deal_group(const struct fm_deal_request *request, const struct fm_members *members,
                  struct fm_deal *deal, struct fm_error *err);
int fm_deal_stratified_group(const struct fm_deal_request *request, const struct fm_members *members,
                             struct fm_deal *deal, struct fm_error *err);
int fm_deal_leave_one_group_out(const struct fm_deal_request *request, const struct fm_members *members,
                                struct fm_deal *deal, struct fm_error *err);
int fm_deal_time_series(const struct fm_deal_request *request, const struct fm_members *members,
                        struct fm_deal *deal, struct fm_error *err);
int fm_deal_ordered_holdout(const struct fm_deal_request *request, const struct fm_members *members,
                            struct fm_deal *deal, struct fm_error *err);
int fm_deal_shuffled_holdout(const struct fm_deal_request *request, const struct fm_members *members,
                             struct fm_deal *deal, struct fm_error *err);
int fm_deal_predefined(const struct fm_deal_request *request, const struct fm_members *members,
                       const struct fm_data_config *config, struct fm_deal *deal, struct fm_error *err);

/* ---- their cores, without examples ---- */

/* GroupKFold over groups of the given sizes (all at least 1). Unshuffled: larger groups first, of equal ones
 * the larger index, each to the lightest fold (the lowest on a tie). Shuffled: permuted and cut as by
 * array_split. */
int fm_spread_groups(const int64_t *sizes, int64_t ngroups, int64_t folds, struct fm_mt19937 *mt,
                     int32_t *fold, struct fm_error *err);

/* StratifiedGroupKFold over groups with the given class counts, counts[group * nclasses + class]; `mt` NULL =
 * not shuffled. Sums run in NumPy's order, so that ties fall as they do there. Where scikit-learn would leave
 * a fold empty though there are enough groups (its issue 34828), the smallest group (of equal ones the last)
 * of the fold with most groups (of equal ones the first) moves there; *moved counts such moves. */
int fm_spread_stratified(const int64_t *counts, int64_t ngroups, int64_t nclasses, int64_t folds,
                         struct fm_mt19937 *mt, int32_t *fold, int64_t *moved, struct fm_error *err);

#endif
