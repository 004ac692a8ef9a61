#include "cli/options.h"

#include <getopt.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

#define MAX_OPTIONS 32
#define MAX_LANES   4096
#define MAX_BATCH   32768

static const struct fm_option *find(const struct fm_command *command, int id)
{
    for (const struct fm_option *o = command->options; o->name; o++)
        if ((int)o->id == id) return o;
    return NULL;
}

static int unknown(const struct fm_command *command, const char *word, struct fm_error *err)
{
    const char *names[MAX_OPTIONS];
    size_t count = 0;
    for (const struct fm_option *o = command->options; o->name && count < MAX_OPTIONS; o++)
        names[count++] = o->name;
    char name[64], shown[80];
    snprintf(name, sizeof name, "%s", word[0] == '-' && word[1] == '-' ? word + 2 : word);
    name[strcspn(name, "=")] = '\0';
    fm_show(word, strlen(word), shown, sizeof shown);
    const char *near = fm_nearest(name, names, count);
    if (near)
        return fm_fail(err, FM_EUSAGE, "foldmill %s has no option '%s'; did you mean '--%s'?", command->name,
                       shown, near);
    return fm_fail(err, FM_EUSAGE, "foldmill %s has no option '%s': foldmill %s --help lists them",
                   command->name, shown, command->name);
}

static int whole(const char *name, const char *text, int64_t max, int64_t *value, struct fm_error *err)
{
    if (fm_parse_integer(text, strlen(text), value) && *value >= 1 && *value <= max) return 0;
    char shown[48];
    return fm_fail(err, FM_EUSAGE, "--%s needs a whole number from 1 to %lld, not '%s'", name, (long long)max,
                   fm_show(text, strlen(text), shown, sizeof shown));
}

static int color(const char *text, enum fm_color_choice *choice, struct fm_error *err)
{
    static const char *const names[] = {"auto", "always", "never"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i])) continue;
        *choice = (enum fm_color_choice)i;
        return 0;
    }
    char shown[48];
    return fm_fail(err, FM_EUSAGE, "--color takes always, never or auto, not '%s'",
                   fm_show(text, strlen(text), shown, sizeof shown));
}

static int setting(const char *text, struct fm_arguments *a, struct fm_error *err)
{
    if (!strchr(text, '=') || text[0] == '=')
        return fm_fail(err, FM_EUSAGE, "--set takes KEY=VALUE, as in --set train.epochs=3");
    const char **settings = fm_realloc(a->settings, a->nsettings + 1, sizeof *settings);
    if (!settings) return fm_fail_memory(err);
    a->settings = settings;
    a->settings[a->nsettings++] = text;
    return 0;
}

static int take(enum fm_option_id id, const char *value, struct fm_arguments *a, struct fm_error *err)
{
    switch (id) {
    case FM_OPTION_HELP: a->help = true; return 0;
    case FM_OPTION_JOURNAL:
        a->journal = value;
        return *value ? 0 : fm_fail(err, FM_EUSAGE, "--journal needs a path");
    case FM_OPTION_SET: return setting(value, a, err);
    case FM_OPTION_DEVICE: a->device = value; return 0;
    case FM_OPTION_KERNELS: a->kernels = value; return 0;
    case FM_OPTION_ACCEPT_OTHER: a->accept_other = true; return 0;
    case FM_OPTION_PROFILE: a->profile = true; return 0;
    case FM_OPTION_LANES: return whole("lanes", value, MAX_LANES, &a->lanes, err);
    case FM_OPTION_FRESH: a->fresh = true; return 0;
    case FM_OPTION_QUIET: a->quiet = true; return 0;
    case FM_OPTION_JSON: a->json = true; return 0;
    case FM_OPTION_COLOR: return color(value, &a->color, err);
    case FM_OPTION_TRIAL: return whole("trial", value, INT64_MAX, &a->trial, err);
    case FM_OPTION_SECONDS:
        if (fm_parse_number(value, strlen(value), &a->seconds) && a->seconds > 0 && a->seconds <= 3600)
            return 0;
        return fm_fail(err, FM_EUSAGE, "--seconds takes a number above 0 and up to 3600");
    case FM_OPTION_NETWORK: a->network = value; return 0;
    case FM_OPTION_BATCH: return whole("batch", value, MAX_BATCH, &a->batch, err);
    case FM_OPTION_EXPLAIN: a->explain = true; return 0;
    case FM_OPTION_WEIGHTS:
        a->weights = value;
        a->exports |= 1u << id;
        return *value ? 0 : fm_fail(err, FM_EUSAGE, "--weights needs a folder");
    case FM_OPTION_TRIALS:
    case FM_OPTION_RUNS:
    case FM_OPTION_HISTORY:
    case FM_OPTION_PREDICTIONS: a->exports |= 1u << id; return 0;
    }
    return fm_fail(err, FM_EINTERNAL, "an option of the table is not read");
}

static int refuse(const struct fm_command *command, int got, char **argv, struct fm_error *err)
{
    char letter[3] = {'-', (char)optopt, '\0'};
    const struct fm_option *o = optopt ? find(command, optopt) : NULL;
    for (const struct fm_option *l = command->options; !o && optopt && l->name; l++)
        if (l->letter == optopt) o = l;
    if (got == ':' && o) return fm_fail(err, FM_EUSAGE, "--%s needs an argument: %s", o->name, o->value);
    if (o && !o->value) return fm_fail(err, FM_EUSAGE, "--%s takes no argument", o->name);
    return unknown(command, optopt ? letter : argv[optind - 1], err);
}

static int take_words(const struct fm_command *command, int argc, char **argv, struct fm_arguments *a,
                      struct fm_error *err)
{
    int words = argc - optind;
    if (a->help) return 0;
    if (words < command->min_words)
        return fm_fail(err, FM_EUSAGE, "foldmill %s needs %s: foldmill %s --help says how", command->name,
                       command->arguments, command->name);
    if (words > command->max_words) {
        char shown[80];
        const char *extra = argv[optind + command->max_words];
        return fm_fail(err, FM_EUSAGE, "foldmill %s takes no further argument '%s'", command->name,
                       fm_show(extra, strlen(extra), shown, sizeof shown));
    }
    for (; a->nwords < words; a->nwords++) a->words[a->nwords] = argv[optind + a->nwords];
    return 0;
}

int fm_options_read(const struct fm_command *command, int argc, char **argv, struct fm_arguments *a,
                    struct fm_error *err)
{
    struct option longs[MAX_OPTIONS + 1] = {0};
    char shorts[2 * MAX_OPTIONS + 2] = ":";
    size_t n = 0, s = 1;
    *a = (struct fm_arguments){0};
    for (const struct fm_option *o = command->options; o->name && n < MAX_OPTIONS; o++) {
        longs[n++] = (struct option){o->name, o->value ? required_argument : no_argument, NULL, o->id};
        if (o->letter) shorts[s++] = o->letter;
        if (o->letter && o->value) shorts[s++] = ':';
    }
    opterr = 0;
    optind = 0; /* glibc: start anew */
    int got, rc = 0;
    while (!rc && (got = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        int id = got;
        for (const struct fm_option *o = command->options; o->name; o++)
            if (o->letter && o->letter == got) id = o->id;
        rc = got == '?' || got == ':' ? refuse(command, got, argv, err)
                                      : take((enum fm_option_id)id, optarg, a, err);
    }
    if (!rc) rc = take_words(command, argc, argv, a, err);
    if (rc) fm_arguments_fini(a);
    return rc;
}

void fm_arguments_fini(struct fm_arguments *a)
{
    fm_free(a->settings);
    a->settings = NULL;
}

void fm_options_help(const struct fm_command *command, FILE *out)
{
    fprintf(out, "foldmill %s%s%s - %s\n\nOptions:\n", command->name, *command->arguments ? " " : "",
            command->arguments, command->summary);
    for (const struct fm_option *o = command->options; o->name; o++) {
        if (!*o->help) continue;
        char name[64], letter[8] = "";
        if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
        snprintf(name, sizeof name, "%s--%s%s%s", letter, o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        fprintf(out, "  %-21s %s\n", name, o->help);
    }
    if (command->details) fprintf(out, "\n%s", command->details);
}
