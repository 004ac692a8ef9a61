/* Criterion's own process, which starts each test in one of its own, now and then leaks 48 bytes of
 * libcriterion when it ends. The leak check is therefore left to the tests' processes, where every leak is
 * fatal (scripts/check.sh). A suppression by name would not do: libcriterion stands in the call stack of
 * every test. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* Asked by LeakSanitizer at the end of a process, which finds it only if it is visible; never called without
 * it. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    char name[16] = "";
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    bool known = fd >= 0 && read(fd, name, sizeof name - 1) > 0;
    if (fd >= 0) close(fd);
    return known && strncmp(name, "boxfort-worker", 14) != 0;
}

Test(runner, looks_for_leaks_in_the_processes_of_tests)
{
    cr_assert_eq(__lsan_is_turned_off(), 0);
}
