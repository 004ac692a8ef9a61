/* Runs every test that registered itself, and names each. */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct aarch64_test *first, **last = &first;

void aarch64_register(struct aarch64_test *test)
{
    *last = test;
    last = &test->next;
}

static struct aarch64_suite *suites;

void aarch64_register_suite(struct aarch64_suite *suite)
{
    suite->next = suites;
    suites = suite;
}

void aarch64_failed(const char *file, int line, const char *condition, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: %s does not hold:", file, line, condition);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

/* All tests, or those whose "suite/name" contains the argument. */
int main(int argc, char **argv)
{
    int ran = 0;
    for (struct aarch64_test *test = first; test; test = test->next) {
        char name[200];
        snprintf(name, sizeof name, "%s/%s", test->suite, test->name);
        if (argc > 1 && !strstr(name, argv[1])) continue;
        puts(name);
        fflush(stdout);
        ran++;
        for (const struct aarch64_suite *suite = suites; suite; suite = suite->next)
            if (!strcmp(suite->name, test->suite) && suite->init) suite->init();
        test->run();
    }
    printf("%d tests\n", ran);
    return ran == 0;
}
