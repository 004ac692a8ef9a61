/* Runs every test that registered itself, and names each. */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static struct aarch64_test *first, **last = &first;

void aarch64_register(struct aarch64_test *test)
{
    *last = test;
    last = &test->next;
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

int main(void)
{
    int ran = 0;
    for (struct aarch64_test *test = first; test; test = test->next, ran++) {
        printf("%s/%s\n", test->suite, test->name);
        fflush(stdout);
        test->run();
    }
    printf("%d tests\n", ran);
    return ran == 0;
}
