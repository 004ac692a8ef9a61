/* The man page and the completion know every command and every option that --help prints, and no other. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#include "cli/cli_support.h"

static const char *const commands[] = {"run", "plan", "show", "split", "export", "devices", "bench", "help"};

TestSuite(cli_documents);

/* The completion's line for a command, with the options that all have. */
static bool completes(const char *completion, const char *command, const char *option)
{
    char begin[32], word[64];
    snprintf(begin, sizeof begin, "    %s) options+=", command);
    snprintf(word, sizeof word, "--%s", option);
    const char *line = strstr(completion, begin), *all = strstr(completion, "local options='");
    const char *found = line ? strstr(line, word) : NULL;
    if (found && found < strchr(line, '\n')) return true;
    found = strstr(all, word);
    return found && found < strchr(all, '\n');
}

Test(cli_documents, man_page_and_completion_are_true_to_help)
{
    struct cli cli = {0};
    char *page = ts_read_file("doc/foldmill.1.scd", NULL);
    char *completion = ts_read_file("scripts/foldmill.bash-completion", NULL);
    cr_assert(page && completion);
    int options = 0;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char word[96];
        snprintf(word, sizeof word, "*foldmill* *%s*", commands[i]);
        cr_expect(strstr(page, word) != NULL, "the man page lacks %s", commands[i]);
        cr_assert(eq(int, cli_run(&cli, commands[i], "--help", NULL, NULL, NULL, NULL), 0));
        char *lines = NULL;
        for (char *line = strtok_r(cli.result.out, "\n", &lines); line; line = strtok_r(NULL, "\n", &lines)) {
            char *dashes = strncmp(line, "  ", 2) ? NULL : strstr(line, "--");
            if (!dashes || dashes > line + 6) continue;
            char name[64] = "";
            sscanf(dashes + 2, "%63[a-z-]", name);
            snprintf(word, sizeof word, "*--%s*", name);
            cr_expect(strstr(page, word) != NULL, "the man page lacks --%s of %s", name, commands[i]);
            cr_expect(completes(completion, commands[i], name), "the completion lacks --%s of %s", name,
                      commands[i]);
            options++;
        }
    }
    cr_expect(gt(int, options, 30));
    ts_result_fini(&cli.result);
    free(page);
    free(completion);
}

Test(cli_documents, man_page_tells_every_variable_of_a_gpu)
{
    static const char *const names[] = {"*FOLDMILL_PLUGINS*", "*FOLDMILL_LIBDIRS*", "*FOLDMILL_LIBDIRS_13*",
                                        "*FOLDMILL_EMULATOR*"};
    char *page = ts_read_file("doc/foldmill.1.scd", NULL);
    cr_assert(page != NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cr_expect(strstr(page, names[i]) != NULL, "the man page lacks %s", names[i]);
    free(page);
}
