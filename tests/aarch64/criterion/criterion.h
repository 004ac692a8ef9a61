/* Just enough of Criterion for the tests that tests/slow/aarch64.sh builds for another processor, where the
 * library is not to be had: tests register themselves and main.c runs them one by one in one process. */
#ifndef FM_TESTS_AARCH64_CRITERION_H
#define FM_TESTS_AARCH64_CRITERION_H

struct aarch64_test {
    const char *suite, *name;
    void (*run)(void);
    struct aarch64_test *next;
};

void aarch64_register(struct aarch64_test *test);
/* Prints and ends the program; what follows the condition in an assertion is a format and its arguments. */
void aarch64_failed(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5), noreturn));

#define Test(suite_name, test_name)                                                                          \
    static void test_##suite_name##_##test_name(void);                                                       \
    __attribute__((constructor)) static void register_##suite_name##_##test_name(void)                       \
    {                                                                                                        \
        static struct aarch64_test test = {#suite_name, #test_name, test_##suite_name##_##test_name, 0};     \
        aarch64_register(&test);                                                                             \
    }                                                                                                        \
    static void test_##suite_name##_##test_name(void)

/* What a suite says of itself; only `init` is used, before each of its tests. */
struct aarch64_suite {
    void (*init)(void);
    double timeout;
    const char *name;
    struct aarch64_suite *next;
};
void aarch64_register_suite(struct aarch64_suite *suite);
#define TestSuite(suite_name, ...)                                                                           \
    __attribute__((constructor)) static void register_suite_##suite_name(void)                               \
    {                                                                                                        \
        static struct aarch64_suite suite = {__VA_ARGS__};                                                   \
        suite.name = #suite_name;                                                                            \
        aarch64_register_suite(&suite);                                                                      \
    }                                                                                                        \
    struct aarch64_suite

#define cr_assert(condition, ...)                                                                            \
    do {                                                                                                     \
        if (!(condition)) aarch64_failed(__FILE__, __LINE__, #condition, " " __VA_ARGS__);                   \
    } while (0)
#define cr_assert_eq(a, b, ...)  cr_assert((a) == (b), __VA_ARGS__)
#define cr_assert_neq(a, b, ...) cr_assert((a) != (b), __VA_ARGS__)
#define cr_assert_float_eq(a, b, epsilon, ...)                                                               \
    cr_assert((a) - (b) <= (epsilon) && (b) - (a) <= (epsilon), __VA_ARGS__)
#define cr_assert_not_null(a, ...) cr_assert((a) != 0, __VA_ARGS__)

#endif
