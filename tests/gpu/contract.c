/* The contract of engine/backend.h on whatever `cuda` opens here: a real card (make check-gpu), or the
 * emulator with FOLDMILL_PLUGINS=build/emulated. The checks are those that every backend of Foldmill stands;
 * this is a program of its own because it talks to a plug-in as foldmill does, through fm_backend_open.
 *   GPU_NETWORKS   how many random networks are compared with the reference executor (100) */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/backend_checks.h"
#include "engine/plugin.h"

TestSuite(gpu, .timeout = 240);

static const struct fm_backend *card(void)
{
    const struct fm_backend *backend;
    struct fm_device *device;
    const struct fm_device_options options = {.lanes = 1};
    struct fm_error err = {0};
    cr_assert_eq(fm_backend_open(&backend, &device, "cuda", &options, NULL, 0, &err), 0, "%s", err.text);
    backend->close(device);
    return backend;
}

static int networks(void)
{
    const char *wanted = getenv("GPU_NETWORKS");
    const long count = wanted ? strtol(wanted, NULL, 10) : 100;
    return count > 0 && count < 100000 ? (int)count : 100;
}

Test(gpu, what_runs_beside_changes_no_bit)
{
    ts_check_all_beside(card(), 3);
}

Test(gpu, steps_one_by_one_give_the_same_bits)
{
    ts_check_cuts(card());
}

Test(gpu, evaluations_between_steps_change_no_bit)
{
    ts_check_between(card(), 2);
}

Test(gpu, states_and_snapshots)
{
    ts_check_resume(card());
    ts_check_portable(card());
    ts_check_snapshots(card());
}

Test(gpu, cancel_and_close)
{
    ts_check_cancel(card());
    ts_check_closing(card());
}

Test(gpu, bad_steps)
{
    const struct fm_backend *backend = card();
    ts_check_frozen(backend, "stop", NAN);
    ts_check_frozen(backend, "rollback", INFINITY);
    ts_check_skip(backend);
    ts_check_keras(backend);
    ts_check_clipvalue(backend);
    ts_check_huge_rate(backend);
}

Test(gpu, evaluations)
{
    const struct fm_backend *backend = card();
    ts_check_classes(backend, 5, "categorical_crossentropy");
    ts_check_ties(backend);
    ts_check_numbers(backend);
    ts_check_a13(backend);
}

/* The plan's choice, own kernels alone, and the libraries wherever they can. */
static const struct fm_device_options kernels[] = {{.lanes = 1, .kernels = FM_KERNELS_AUTO},
                                                   {.lanes = 1, .kernels = FM_KERNELS_OWN},
                                                   {.lanes = 1, .kernels = FM_KERNELS_LIBRARY}};

/* How many of those there are here: without cuDNN and cuBLAS not the last, which is told in the report. That
 * a device with a library cannot be opened for it is a failure. */
static int choices(void)
{
    const struct fm_backend *backend;
    struct fm_device *device;
    struct fm_error err = {0};
    cr_assert_eq(fm_backend_open(&backend, &device, "cuda", &kernels[0], NULL, 0, &err), 0, "%s", err.text);
    const bool none = strstr(backend->numbers(device), "cudnn 0,cublas 0") != NULL;
    backend->close(device);
    const int status = fm_backend_open(&backend, &device, "cuda", &kernels[2], NULL, 0, &err);
    cr_assert_eq(status, none ? FM_EUSAGE : 0, "%s", err.text);
    if (!none)
        backend->close(device);
    else
        printf("left out: --kernels library, because it has none here (%s)\n", err.text);
    fflush(stdout);
    return none ? 2 : 3;
}

Test(gpu, keras_on_the_card)
{
    const int count = choices();
    for (int i = 0; i < count; i++) ts_check_training(card(), &kernels[i]);
}

Test(gpu, random_networks)
{
    const int count = choices();
    for (int i = 0; i < count; i++) ts_check_random_networks(card(), &kernels[i], NULL, 1, networks());
}
