#include "base/indexset.h"

#include "base/error.h"
#include "base/memory.h"

#include <string.h>

/* Forms are changed only when the other takes half the memory, and small sets stay lists of runs until the
 * end, so that changing to and fro costs a constant time a member at most. */
enum { FEW_RUNS = 64 };

static int64_t gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int64_t bitmap_bytes(int64_t first, int64_t last, int64_t stride)
{
    int64_t words = (last - first) / stride / 64 + 1;
    return words * 8 + (words + FM_INDEXSET_BLOCK - 1) / FM_INDEXSET_BLOCK * (int64_t)sizeof(struct fm_block);
}

static int64_t runs_bytes(const struct fm_indexset_builder *b)
{
    return (b->closed + (b->open.count > 0)) * (int64_t)sizeof(struct fm_stretch);
}

void fm_indexset_builder_init(struct fm_indexset_builder *b, int64_t stride)
{
    *b = (struct fm_indexset_builder){.hint = stride > 0 ? stride : 1, .last = -1};
}

/* The stride of a bitmap: as wide as the members allow, or the hint if that will do for what is to come. */
static int64_t bitmap_stride(const struct fm_indexset_builder *b)
{
    if (b->grid == 0) return b->hint;
    return b->hint > 1 && b->grid % b->hint == 0 ? b->hint : b->grid;
}

static void push_run(struct fm_indexset_builder *b, struct fm_stretch run)
{
    struct fm_indexset *set = &b->set;
    if (fm_grow(&set->runs, &b->capacity, (size_t)set->nruns + 1, sizeof run) != 0) {
        b->failed = FM_ENOMEM;
        return;
    }
    set->runs[set->nruns++] = run;
}

static void close_run(struct fm_indexset_builder *b)
{
    if (b->open.count == 0) return;
    if (!b->set.bits) push_run(b, b->open);
    if (b->failed) return;
    b->closed++;
    b->open = (struct fm_stretch){0};
}

/* Counts members into the open run or begins another one; taking each run as long as it will go gives the
 * smallest number of runs. The bits, if any, are set elsewhere. */
static void extend_runs(struct fm_indexset_builder *b, int64_t first, int64_t count, int64_t stride)
{
    struct fm_stretch *open = &b->open;
    if (open->count == 1 && count > 0) open->stride = first - open->first;
    if (open->count > 0 && first == open->first + open->count * open->stride &&
        (count == 1 || stride == open->stride)) {
        open->count += count;
    } else {
        int64_t before = open->count > 0 ? open->before + open->count : 0;
        if (open->count == 0) before = b->set.count;
        close_run(b);
        if (b->failed) return;
        *open = (struct fm_stretch){
            .first = first, .count = count, .stride = count > 1 ? stride : 1, .before = before};
    }
    b->set.count += count;
}

static void set_bits(struct fm_indexset *set, int64_t first, int64_t count, int64_t stride)
{
    int64_t bit = (first - set->origin) / set->stride, step = stride / set->stride;
    for (int64_t i = 0; i < count; i++, bit += step) set->bits[bit / 64] |= (uint64_t)1 << bit % 64;
}

/* Makes the bitmap reach `last`; new words are zero. */
static bool reach(struct fm_indexset_builder *b, int64_t last)
{
    struct fm_indexset *set = &b->set;
    int64_t nbits = (last - set->origin) / set->stride + 1;
    size_t words = (size_t)(set->nbits + 63) / 64, need = (size_t)(nbits + 63) / 64;
    if (fm_grow(&set->bits, &b->capacity, need, sizeof *set->bits) != 0) {
        b->failed = FM_ENOMEM;
        return false;
    }
    if (need > words) memset(set->bits + words, 0, (need - words) * sizeof *set->bits);
    set->nbits = nbits;
    return true;
}

static void runs_to_bitmap(struct fm_indexset_builder *b)
{
    struct fm_stretch *runs = b->set.runs;
    int64_t nruns = b->set.nruns;
    b->set.runs = NULL;
    b->set.nruns = 0;
    b->set.origin = nruns > 0 ? runs[0].first : b->open.first;
    b->set.stride = bitmap_stride(b);
    b->capacity = 0;
    if (reach(b, b->last)) {
        for (int64_t i = 0; i < nruns; i++) set_bits(&b->set, runs[i].first, runs[i].count, runs[i].stride);
        set_bits(&b->set, b->open.first, b->open.count, b->open.stride);
    }
    fm_free(runs);
}

/* Takes the bits away and lists their members as runs, or as bits of another stride. */
static void rebuild(struct fm_indexset_builder *b, bool as_bitmap)
{
    struct fm_indexset old = b->set;
    struct fm_cursor cursor = {0};
    int64_t member;
    b->set = (struct fm_indexset){.origin = old.origin, .stride = bitmap_stride(b)};
    b->capacity = 0;
    if (as_bitmap) {
        b->set.count = old.count;
        if (reach(b, b->last)) {
            while (fm_indexset_next(&old, &cursor, &member)) set_bits(&b->set, member, 1, b->set.stride);
        }
    } else {
        b->open = (struct fm_stretch){0};
        b->closed = 0;
        while (!b->failed && fm_indexset_next(&old, &cursor, &member)) extend_runs(b, member, 1, 1);
    }
    fm_indexset_fini(&old);
}

/* Before bits of new members are set: does the bitmap still pay, and does its stride still reach them? */
static void prepare_bitmap(struct fm_indexset_builder *b, int64_t last)
{
    int64_t stride = b->set.stride;
    if (b->grid % stride != 0) stride = bitmap_stride(b);
    if (bitmap_bytes(b->set.origin, last, stride) >
        2 * (runs_bytes(b) + (int64_t)sizeof(struct fm_stretch)) + 4096) {
        rebuild(b, false);
    } else if (stride != b->set.stride) {
        rebuild(b, true);
    }
}

static void add_members(struct fm_indexset_builder *b, int64_t first, int64_t count, int64_t stride)
{
    int64_t last = first + (count - 1) * stride;
    if (b->set.count > 0) {
        int64_t distance = first - b->last;
        if (b->grid == 0 || distance % b->grid != 0) b->grid = gcd(b->grid, distance);
    }
    if (count > 1) b->grid = gcd(b->grid, stride);
    if (b->set.bits) prepare_bitmap(b, last);
    if (b->failed) return;
    extend_runs(b, first, count, stride);
    if (b->failed) return;
    b->last = last;
    if (b->set.bits) {
        if (reach(b, last)) set_bits(&b->set, first, count, count > 1 ? stride : b->set.stride);
    } else if (b->set.nruns >= FEW_RUNS) {
        int64_t bytes = bitmap_bytes(b->set.runs[0].first, last, bitmap_stride(b));
        if (runs_bytes(b) / 2 > bytes) runs_to_bitmap(b);
    }
}

void fm_indexset_add(struct fm_indexset_builder *b, int64_t member)
{
    fm_indexset_add_run(b, member, 1, 1);
}

void fm_indexset_add_run(struct fm_indexset_builder *b, int64_t first, int64_t count, int64_t stride)
{
    int64_t last;
    if (b->failed || count == 0) return;
    if (count < 0 || stride < 1 || first <= b->last || __builtin_mul_overflow(count - 1, stride, &last) ||
        __builtin_add_overflow(first, last, &last) || last >= (int64_t)1 << 62) {
        b->failed = FM_EINTERNAL;
        return;
    }
    /* The first member may end the run before; the others then begin their own. */
    if (count > 1 && b->open.count > 0 && first == b->open.first + b->open.count * b->open.stride &&
        stride != b->open.stride && b->open.count > 1) {
        add_members(b, first, 1, 1);
        if (b->failed) return;
        first += stride;
        count--;
    }
    add_members(b, first, count, stride);
}

/* The rank directory. Words beyond the end have no members. */
static int fill_blocks(struct fm_indexset *set)
{
    const int64_t words = (set->nbits + 63) / 64,
                  blocks = (words + FM_INDEXSET_BLOCK - 1) / FM_INDEXSET_BLOCK;
    int64_t before = 0;
    set->blocks = fm_malloc((size_t)blocks, sizeof *set->blocks);
    if (!set->blocks) return FM_ENOMEM;
    for (int64_t b = 0; b < blocks; b++) {
        uint64_t sum = 0, sums = 0;
        for (int k = 0; k < FM_INDEXSET_BLOCK; k++) {
            const int64_t word = b * FM_INDEXSET_BLOCK + k;
            if (word < words) sum += (uint64_t)__builtin_popcountll(set->bits[word]);
            if (k < 7) sums |= sum << 9 * k;
        }
        set->blocks[b] = (struct fm_block){before, sums};
        before += (int64_t)sum;
    }
    set->pace = (double)blocks / (double)set->count;
    return 0;
}

/* Gives back what was reserved for growing; keeping it would be no error. */
static void trim(struct fm_indexset *set)
{
    if (set->bits) {
        uint64_t *bits = fm_realloc(set->bits, (size_t)(set->nbits + 63) / 64, sizeof *bits);
        if (bits) set->bits = bits;
    } else if (set->runs) {
        struct fm_stretch *runs = fm_realloc(set->runs, (size_t)set->nruns, sizeof *runs);
        if (runs) set->runs = runs;
    }
}

static void choose_form(struct fm_indexset_builder *b)
{
    if (b->failed || b->set.count == 0) return;
    int64_t first = b->set.bits ? b->set.origin : b->set.nruns > 0 ? b->set.runs[0].first : b->open.first;
    /* For a handful of runs two more allocations would not pay. */
    bool bitmap = bitmap_bytes(first, b->last, b->grid ? b->grid : 1) + 64 < runs_bytes(b);
    if (bitmap && !b->set.bits) {
        b->hint = 1;
        runs_to_bitmap(b);
    } else if (bitmap && b->set.stride != b->grid) {
        b->hint = 1;
        rebuild(b, true);
    } else if (!bitmap && b->set.bits) {
        rebuild(b, false);
    }
    if (!b->failed) close_run(b);
    if (!b->failed && b->set.bits) b->failed = fill_blocks(&b->set);
}

int fm_indexset_finish(struct fm_indexset_builder *b, struct fm_indexset *set, struct fm_error *err)
{
    choose_form(b);
    int failed = b->failed;
    *set = b->set;
    fm_indexset_builder_init(b, 1);
    if (failed) {
        fm_indexset_fini(set);
        if (failed == FM_ENOMEM) return fm_fail_memory(err);
        return fm_fail(err, failed, "members of an index set must increase and lie in 0 to 2^62");
    }
    trim(set);
    return 0;
}
