/* run --profile: where the time went. Steps run call by call then, with an event at every border, so that a
 * call's time is the distance of two events; graphs would hide the calls. */
#include "lane_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "base/memory.h"

struct entry {
    char *name;
    int64_t count;
    double seconds; /* on the device */
};

struct fm_profile {
    struct entry *entries;
    size_t count, capacity;
    double began, launching, waiting; /* on the host */
    double wait_began;                /* less what launching took until then */
};

int fm_profile_new(struct fm_device *device, struct fm_error *err)
{
    device->profile = fm_calloc(1, sizeof *device->profile);
    if (!device->profile) return fm_fail_memory(err);
    device->profile->began = fm_monotonic();
    return 0;
}

void fm_profile_free(struct fm_device *device)
{
    if (!device->profile) return;
    for (size_t i = 0; i < device->profile->count; i++) fm_free(device->profile->entries[i].name);
    fm_free(device->profile->entries);
    fm_free(device->profile);
    device->profile = NULL;
}

void fm_profile_launched(struct fm_device *device, double seconds)
{
    device->profile->launching += seconds;
}

void fm_profile_waits(struct fm_device *device, bool begins)
{
    struct fm_profile *profile = device->profile;
    const double now = fm_monotonic() - profile->launching;
    if (begins)
        profile->wait_began = now;
    else
        profile->waiting += now - profile->wait_began;
}

/* ---- marks ---- */

static int make_room(struct fm_profile_marks *marks, struct fm_error *err)
{
    const size_t need = (size_t)marks->count + 1;
    if (fm_grow(&marks->events, &marks->capacity, need, sizeof *marks->events) ||
        fm_grow(&marks->calls, &marks->call_capacity, need, sizeof *marks->calls))
        return fm_fail_memory(err);
    return 0;
}

int fm_profile_watch(void *context, const struct fm_cuda_call *call, struct fm_error *err)
{
    const struct fm_lane *lane = context;
    struct fm_cuda_slot *slot = lane->slot;
    struct fm_profile_marks *marks = &slot->marks[slot->chunks % FM_CUDA_FLIGHT];
    int status = make_room(marks, err);
    if (status) return status;
    if (marks->count == marks->made) {
        status =
            fm_cuda_check(lane->device, cudaEventCreate(&marks->events[marks->made]), err, "make an event");
        if (status) return status;
        marks->made++;
    }
    marks->calls[marks->count] = call;
    status = fm_cuda_check(lane->device, cudaEventRecord(marks->events[marks->count], slot->stream), err,
                           "mark a call");
    if (!status) marks->count++;
    return status;
}

static struct entry *find_entry(struct fm_profile *profile, const char *name)
{
    for (size_t i = 0; i < profile->count; i++)
        if (strcmp(profile->entries[i].name, name) == 0) return &profile->entries[i];
    if (fm_grow(&profile->entries, &profile->capacity, profile->count + 1, sizeof *profile->entries))
        return NULL;
    char *copy = fm_strdup(name);
    if (!copy) return NULL;
    profile->entries[profile->count] = (struct entry){.name = copy};
    return &profile->entries[profile->count++];
}

void fm_profile_harvest(struct fm_device *device, struct fm_profile_marks *marks)
{
    for (int i = 0; i + 1 < marks->count && !device->dead; i++) {
        float milliseconds = 0;
        if (!marks->calls[i]) continue;
        if (!FM_CUDA_NOTED(device,
                           cudaEventElapsedTime(&milliseconds, marks->events[i], marks->events[i + 1])))
            continue;
        /* Without memory for a new line the table lacks it; that is no reason to fail a run. */
        struct entry *entry = find_entry(device->profile, fm_cuda_call_name(marks->calls[i]));
        if (!entry) continue;
        entry->count++;
        entry->seconds += 1e-3 * (double)milliseconds;
    }
    marks->count = 0;
}

void fm_profile_marks_free(struct fm_device *device, struct fm_profile_marks *marks)
{
    for (int i = 0; i < marks->made; i++) FM_CUDA_NOTED(device, cudaEventDestroy(marks->events[i]));
    fm_free(marks->events);
    fm_free(marks->calls);
    *marks = (struct fm_profile_marks){0};
}

/* ---- the table ---- */

static int by_time(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    return (a->seconds < b->seconds) - (a->seconds > b->seconds);
}

static void add_line(struct fm_text *text, const char *name, double seconds, double wall, int64_t count)
{
    fm_text_add(text, "  %-44s %10.3f s %6.1f %%", name, seconds, wall > 0 ? 100 * seconds / wall : 0.0);
    if (count > 0) fm_text_add(text, " %12lld x %9.2f us", (long long)count, 1e6 * seconds / (double)count);
    fm_text_add(text, "\n");
}

int fm_cuda_profile(struct fm_device *device, struct fm_text *text, struct fm_error *err)
{
    struct fm_profile *profile = device->profile;
    if (!profile) return fm_fail(err, FM_EUSAGE, "nothing was measured: run with --profile");
    const double wall = fm_monotonic() - profile->began;
    double device_time = 0;
    qsort(profile->entries, profile->count, sizeof *profile->entries, by_time);
    fm_text_add(text, "On the device (lanes side by side count each):\n");
    for (size_t i = 0; i < profile->count; i++) {
        const struct entry *entry = &profile->entries[i];
        device_time += entry->seconds;
        add_line(text, entry->name, entry->seconds, wall, entry->count);
    }
    add_line(text, "begin, end, copies, idle; less what overlaps", wall - device_time, wall, 0);
    add_line(text, "together: wall time", wall, wall, 0);
    fm_text_add(text, "On the host:\n");
    add_line(text, "launching", profile->launching, wall, 0);
    add_line(text, "waiting for the device", profile->waiting, wall, 0);
    add_line(text, "everything else", wall - profile->launching - profile->waiting, wall, 0);
    add_line(text, "together: wall time", wall, wall, 0);
    return text->failed ? fm_fail_memory(err) : 0;
}
