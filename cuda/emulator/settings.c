/* FOLDMILL_EMULATOR: the settings of the emulated GPU for whole programs, which cannot call
 * fm_emulator_reset.
 *
 *   policy=eager|first|last|starve|random   order of the streams' work
 *   starved=N        the stream that starves
 *   seed=N           of random orders
 *   threads=N        order of a block's threads
 *   cards=N          how many there are
 *   card=KIND        which (fm_emulator_cards)
 *   card=KIND+KIND   the first card's kind and that of all others
 *   memory=N         bytes of each
 *   driver=N         the CUDA version that the driver supports, as 12020
 *   kernel_us=N      what a kernel takes by the clock of events
 *   fail=N           the call that fails, from 1
 *   status=N         with this CUDA status
 *   sticky           and all that come after it
 *   no_library, no_graphs, no_driver
 *
 * What cannot be understood is told, and then there is no driver: a test that was misspelt must not pass. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "emulator/emulator.h"

#define LIST           "FOLDMILL_EMULATOR"
#define LAUNCH_FAILURE 719 /* cudaErrorLaunchFailure */
#define MOST_CARDS     16

struct word {
    const char *name, *value; /* value: NULL = there is no '=' */
    size_t name_size, value_size;
};

static bool is(const char *text, size_t size, const char *word)
{
    return size == strlen(word) && !memcmp(text, word, size);
}

static bool take_policy(const struct word *word, struct fm_emulator_settings *s)
{
    static const char *const names[] = {"eager", "first", "last", "starve", "random"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!is(word->value, word->value_size, names[i])) continue;
        s->policy = (enum fm_emulator_policy)i;
        return true;
    }
    return false;
}

/* The emulator's own text, which lives on; NULL when there is no such kind. */
static const char *kind_of(const char *text, size_t size)
{
    for (const char *const *card = fm_emulator_cards(); *card; card++)
        if (is(text, size, *card)) return *card;
    return NULL;
}

static bool take_card(const struct word *word, struct fm_emulator_settings *s)
{
    const char *plus = memchr(word->value, '+', word->value_size);
    const size_t first = plus ? (size_t)(plus - word->value) : word->value_size;
    s->card = kind_of(word->value, first);
    s->others = plus ? kind_of(plus + 1, word->value_size - first - 1) : NULL;
    return s->card && (!plus || s->others);
}

static bool take_flag(const struct word *word, struct fm_emulator_settings *s)
{
    bool *const flags[] = {&s->fail_sticky, &s->no_library, &s->no_graphs, &s->no_driver};
    static const char *const names[] = {"sticky", "no_library", "no_graphs", "no_driver"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (!is(word->name, word->name_size, names[i])) continue;
        *flags[i] = true;
        return true;
    }
    return false;
}

static bool take_number(const struct word *word, struct fm_emulator_settings *s)
{
    int64_t number;
    if (!fm_parse_integer(word->value, word->value_size, &number) || number < 0) return false;
    const bool small = number <= INT32_MAX;
    if (is(word->name, word->name_size, "seed"))
        s->seed = (uint64_t)number;
    else if (is(word->name, word->name_size, "memory") && number > 0)
        s->memory = number;
    else if (is(word->name, word->name_size, "kernel_us") && small)
        s->kernel_us = number;
    else if (is(word->name, word->name_size, "fail"))
        s->fail_call = number;
    else if (is(word->name, word->name_size, "starved") && small)
        s->starved = (int)number;
    else if (is(word->name, word->name_size, "threads") && small)
        s->thread_order = (int)number;
    else if (is(word->name, word->name_size, "cards") && number >= 1 && number <= MOST_CARDS)
        s->cards = (int)number;
    else if (is(word->name, word->name_size, "driver") && number >= 1000 && small)
        s->driver = (int)number;
    else if (is(word->name, word->name_size, "status") && small)
        s->fail_status = (int)number;
    else
        return false;
    return true;
}

static bool take(const struct word *word, struct fm_emulator_settings *s)
{
    if (!word->value) return take_flag(word, s);
    if (is(word->name, word->name_size, "policy")) return take_policy(word, s);
    if (is(word->name, word->name_size, "card")) return take_card(word, s);
    return take_number(word, s);
}

bool fm_emulator_parse(const char *list, struct fm_emulator_settings *settings, char *why, size_t why_size)
{
    *settings = (struct fm_emulator_settings){0};
    while (*list) {
        const size_t size = strcspn(list, ",");
        const char *equals = memchr(list, '=', size);
        struct word word = {.name = list, .name_size = size};
        if (equals) {
            word.name_size = (size_t)(equals - list);
            word.value = equals + 1;
            word.value_size = size - word.name_size - 1;
        }
        if (!take(&word, settings)) {
            char shown[48];
            snprintf(why, why_size, LIST ": there is no setting '%s'",
                     fm_show(list, size, shown, sizeof shown));
            return false;
        }
        list += size + (list[size] == ',');
    }
    /* CUDA goes on after most errors; a launch failure is for good. */
    if (settings->fail_sticky && !settings->fail_status) settings->fail_status = LAUNCH_FAILURE;
    return true;
}

void fm_emulator_from_environment(void)
{
    struct fm_emulator_settings settings;
    char why[128];
    /* Once: what a test has set stays, and a second device is no second emulator. */
    if (fm_emulator_is_set()) return;
    const char *list = getenv(LIST);
    if (!fm_emulator_parse(list ? list : "", &settings, why, sizeof why)) {
        fprintf(stderr, "%s: no emulated GPU can be used\n", why);
        settings = (struct fm_emulator_settings){.no_driver = true};
    } else {
        fprintf(stderr, "This GPU is emulated: right results, slowly. No real one is used.\n");
    }
    settings.leaks = true;
    fm_emulator_reset(&settings);
}
