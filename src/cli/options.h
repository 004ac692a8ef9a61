/* Options of a sub-command: one static table reads them (getopt_long) and prints --help, so that help and
 * code cannot differ. */
#ifndef FM_CLI_OPTIONS_H
#define FM_CLI_OPTIONS_H

#include <stdio.h>

#include "base/error.h"

enum fm_option_id {
    FM_OPTION_HELP = 1,
    FM_OPTION_JOURNAL,
    FM_OPTION_SET,
    FM_OPTION_DEVICE,
    FM_OPTION_LANES,
    FM_OPTION_KERNELS,
    FM_OPTION_ACCEPT_OTHER,
    FM_OPTION_PROFILE,
    FM_OPTION_FRESH,
    FM_OPTION_QUIET,
    FM_OPTION_JSON,
    FM_OPTION_COLOR,
    FM_OPTION_TRIAL,
    FM_OPTION_SECONDS,
    FM_OPTION_NETWORK,
    FM_OPTION_BATCH,
    FM_OPTION_EXPLAIN,
    FM_OPTION_TRIALS,
    FM_OPTION_RUNS,
    FM_OPTION_HISTORY,
    FM_OPTION_PREDICTIONS,
    FM_OPTION_WEIGHTS
};

struct fm_option {
    const char *name;
    char letter; /* 0 = none */
    enum fm_option_id id;
    const char *value; /* what --help calls its argument; NULL = takes none */
    const char *help;  /* "" hides an alias */
};

enum fm_color_choice { FM_COLOR_AUTO, FM_COLOR_ALWAYS, FM_COLOR_NEVER };

/* What was given; strings are argv's. */
struct fm_arguments {
    const char *words[3]; /* arguments that are no options */
    int nwords;
    const char *journal, *device, *kernels, *weights, *network;
    const char **settings; /* owned */
    size_t nsettings;
    int64_t lanes, trial, batch; /* 0 = not given */
    double seconds;
    enum fm_color_choice color;
    unsigned exports; /* bits of the ids FM_OPTION_TRIALS ... FM_OPTION_WEIGHTS */
    bool fresh, quiet, json, explain, accept_other, profile, help;
};

struct fm_command {
    const char *name;
    const char *arguments;           /* "FILE" */
    const char *summary;             /* one line */
    const char *details;             /* shown by --help below the options */
    const struct fm_option *options; /* ended by name == NULL */
    int min_words, max_words;
    int (*run)(const struct fm_arguments *arguments); /* gives the exit code */
};

/* 0, or FM_EUSAGE with the nearest option. argv[0] is the sub-command's name. */
int fm_options_read(const struct fm_command *command, int argc, char **argv, struct fm_arguments *arguments,
                    struct fm_error *err);
void fm_arguments_fini(struct fm_arguments *arguments);
void fm_options_help(const struct fm_command *command, FILE *out);

#define FM_COMMON_OPTIONS                                                                                    \
    {"color", 0, FM_OPTION_COLOR, "WHEN",                                                                    \
     "always, never, or auto (default): colour where the output is a terminal"},                             \
        {"help", 'h', FM_OPTION_HELP, NULL, "print this"},                                                   \
    {                                                                                                        \
        0                                                                                                    \
    }
#define FM_JOURNAL_OPTION                                                                                    \
    {                                                                                                        \
        "journal", 0, FM_OPTION_JOURNAL, "PATH",                                                             \
            "the journal; default: <file stem>.db beside the sweep file"                                     \
    }
#define FM_SET_OPTION                                                                                        \
    {                                                                                                        \
        "set", 0, FM_OPTION_SET, "KEY=VALUE",                                                                \
            "change a key of the file, dotted: train.epochs=3; may be repeated"                              \
    }
#define FM_DEVICE_OPTIONS                                                                                    \
    {"device", 0, FM_OPTION_DEVICE, "NAME",                                                                  \
     "auto (default: a GPU that can be used, else cpu), cpu, cuda, cuda:0,1 or reference"},                  \
    {                                                                                                        \
        "kernels", 0, FM_OPTION_KERNELS, "WHICH",                                                            \
            "of cuda: auto (default), own, or library: cuDNN and cuBLAS wherever they can"                   \
    }
#define FM_LANES_OPTIONS                                                                                     \
    {"lanes", 0, FM_OPTION_LANES, "N",                                                                       \
     "runs at a time; default: the usable cores; for each GPU four a multiprocessor, 16 to 64 (alias "       \
     "--workers)"},                                                                                          \
    {                                                                                                        \
        "workers", 0, FM_OPTION_LANES, "N", ""                                                               \
    }

#endif
