/* Texts numbered in the order of their first appearance: record ids, groups, labels, folds. */
#ifndef FM_DATA_NAMES_H
#define FM_DATA_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise. Texts are terminated and hold no '\0' inside (callers check). */
struct fm_names {
    char **text;
    uint32_t *size;
    size_t count, capacity, size_capacity;
    uint32_t *slots; /* open addressing: number + 1, 0 = free */
    size_t nslots;
    uint32_t last; /* the last answer, which is the usual next one */
};

/* The number of a text, new or old. 0 or FM_ENOMEM. */
int fm_names_add(struct fm_names *names, const char *text, size_t size, uint32_t *number);
bool fm_names_find(struct fm_names *names, const char *text, size_t size, uint32_t *number);
void fm_names_fini(struct fm_names *names);

/* rank[i] = place of text i among the sorted distinct ones; *distinct = how many those are. By bytes;
 * `by_value`: by number if all are numbers, and then equal numbers ("1", "1.0") share a rank. first[rank] =
 * the text that stands for a rank: the first one seen. Both arrays have room for `count`. 0 or FM_ENOMEM. */
int fm_names_rank(const struct fm_names *names, bool by_value, uint32_t *rank, uint32_t *first,
                  size_t *distinct);

/* Why bytes from a file cannot be a name ("is not valid UTF-8", "holds a zero byte"), or NULL if they can. */
const char *fm_name_refused(const char *text, size_t size);

#endif
