/* The emulator's one state: settings, counters, the objects that exist. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <unordered_map>

#include "emulator/core.h"

namespace
{
struct emulator_state {
    struct fm_emulator_settings settings;
    char card[32], others[32]; /* settings.card and .others point here */
    struct fm_emulator_counts counts;
    uint64_t random;
    cudaError_t last, lost;
    int inside;   /* calls that are going on */
    int64_t came; /* when the first of them began */
    bool told;    /* the program has seen `lost` */
    bool set;     /* by the program, not by default */
    char fault[512];
    std::unordered_map<const void *, const char *> objects;
};
} // namespace
static struct emulator_state *the;

static void take(const struct fm_emulator_settings *settings)
{
    static const struct fm_emulator_settings defaults = {};
    the->settings = settings ? *settings : defaults;
    if (the->settings.cards == 0) the->settings.cards = the->settings.others ? 2 : 1;
    if (the->settings.driver <= 0) the->settings.driver = CUDART_VERSION;
    if (the->settings.memory <= 0) the->settings.memory = (int64_t)1 << 30;
    snprintf(the->card, sizeof the->card, "%s",
             the->settings.card ? the->settings.card : fm_emulator_cards()[0]);
    the->settings.card = the->card;
    snprintf(the->others, sizeof the->others, "%s", the->settings.others ? the->settings.others : the->card);
    the->settings.others = the->others;
    the->random = the->settings.seed * 0x9e3779b97f4a7c15u + 0x1234567u;
}

static struct emulator_state *state(void)
{
    if (!the) {
        the = new struct emulator_state();
        take(NULL);
        fm_emulated_handlers();
    }
    return the;
}

extern "C" void fm_emulator_reset(const struct fm_emulator_settings *settings)
{
    state();
    fm_emulated_streams_forget();
    fm_emulated_graphs_forget();
    fm_emulated_memory_forget();
    fm_emulated_use_card(0);
    the->objects.clear();
    the->counts = fm_emulator_counts();
    the->last = the->lost = cudaSuccess;
    the->told = false;
    the->fault[0] = 0;
    take(settings);
    the->set = true;
}

extern "C" void fm_emulator_set(const struct fm_emulator_settings *settings)
{
    struct emulator_state *s = state();
    int cards = s->settings.cards;
    int64_t memory = s->settings.memory;
    char card[sizeof s->card], others[sizeof s->others];
    memcpy(card, s->card, sizeof card);
    memcpy(others, s->others, sizeof others);
    take(settings);
    memcpy(s->card, card, sizeof card);
    memcpy(s->others, others, sizeof others);
    s->settings.cards = cards;
    s->settings.memory = memory;
    s->set = true;
}

extern "C" bool fm_emulator_is_set(void)
{
    return the && the->set;
}

extern "C" void fm_emulator_count(struct fm_emulator_counts *counts)
{
    struct emulator_state *s = state();
    s->counts.live = s->lost ? 0 : (int64_t)s->objects.size();
    *counts = s->counts;
}

extern "C" void fm_emulator_closed(void)
{
    struct fm_emulator_counts counts;
    fm_emulator_count(&counts);
    if (!state()->settings.leaks) return;
    if (counts.live)
        fm_emulated_fault("%lld of what was made is left when the device is closed", (long long)counts.live);
    if (counts.calls_after_loss)
        fm_emulated_fault("%lld calls were made after one had said that the context is lost",
                          (long long)counts.calls_after_loss);
}

extern "C" const char *fm_emulator_fault(void)
{
    return state()->fault;
}

const struct fm_emulator_settings *fm_emulated_settings(void)
{
    return &state()->settings;
}

struct fm_emulator_counts *fm_emulated_counts(void)
{
    return &state()->counts;
}

static int64_t thread_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

fm_emulated_clock::fm_emulated_clock()
{
    struct emulator_state *s = state();
    if (s->inside++ == 0 && s->settings.driver_time) s->came = thread_time();
}

fm_emulated_clock::~fm_emulated_clock()
{
    if (--the->inside == 0 && the->settings.driver_time) the->counts.driver_ns += thread_time() - the->came;
}

/* splitmix64 */
uint64_t fm_emulated_random(void)
{
    uint64_t x = state()->random += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* ---- errors -------------------------------------------------------------------------------------------- */

/* After these nothing works any more until the process ends. */
static bool fatal(int status)
{
    return status == cudaErrorECCUncorrectable || status == cudaErrorNvlinkUncorrectable ||
           status == cudaErrorContained || status == cudaErrorUnknown ||
           (status >= cudaErrorIllegalAddress && status <= cudaErrorLaunchFailure &&
            status != cudaErrorLaunchOutOfResources && status != 708);
}

bool fm_emulated_lost(void)
{
    return state()->lost != cudaSuccess;
}

cudaError_t fm_emulated_lose(cudaError_t status)
{
    struct emulator_state *s = state();
    if (!s->lost) s->lost = status;
    fm_emulated_drop();
    return s->lost;
}

cudaError_t fm_emulated_error(cudaError_t status)
{
    struct emulator_state *s = state();
    if (status != cudaSuccess) s->last = status;
    if (s->lost && status == s->lost) s->told = true;
    return status;
}

bool fm_emulated_driver_old(void)
{
    return state()->settings.driver / 1000 < CUDART_VERSION / 1000;
}

/* 0, or the status that this call has to give. */
static int enter(int status, bool library)
{
    struct emulator_state *s = state();
    if (s->settings.no_driver || fm_emulated_driver_old()) return cudaErrorInsufficientDriver;
    if (s->lost) {
        if (s->told) s->counts.calls_after_loss++;
        s->told = true;
        return library ? status : (int)s->lost;
    }
    s->counts.calls++;
    if (s->counts.calls != s->settings.fail_call) return 0;
    fm_emulated_captures_excuse();
    if (s->settings.fail_status) status = s->settings.fail_status;
    if (s->settings.fail_sticky || (!library && fatal(status))) {
        fm_emulated_lose(library ? cudaErrorLaunchFailure : (cudaError_t)status);
        s->told = !library;
    }
    return status;
}

cudaError_t fm_emulated_enter(const char *, cudaError_t status)
{
    return fm_emulated_error((cudaError_t)enter(status, false));
}

int fm_emulated_enter_library(const char *, int status)
{
    state()->counts.library_calls++;
    return enter(status, true);
}

extern "C" cudaError_t cudaPeekAtLastError(void)
{
    struct emulator_state *s = state();
    return s->lost && s->told ? s->lost : s->last;
}

extern "C" cudaError_t cudaGetLastError(void)
{
    cudaError_t error = cudaPeekAtLastError();
    state()->last = cudaSuccess;
    return error;
}

/* Called by fm_emulated_fault with the finished text. */
void fm_emulated_keep_fault(const char *text)
{
    struct emulator_state *s = state();
    s->counts.faults++;
    if (!s->fault[0]) snprintf(s->fault, sizeof s->fault, "%s", text);
}

/* ---- objects ------------------------------------------------------------------------------------------- */

void fm_emulated_object_add(const void *object, const char *kind)
{
    state()->objects[object] = kind;
}

bool fm_emulated_object_is(const void *object, const char *kind, const char *call)
{
    struct emulator_state *s = state();
    auto found = s->objects.find(object);
    if (found != s->objects.end() && strcmp(found->second, kind) == 0) return true;
    fm_emulated_fault("%s: %p is no %s that exists%s%s", call, object, kind,
                      found == s->objects.end() ? "" : ", but a ",
                      found == s->objects.end() ? "" : found->second);
    return false;
}

bool fm_emulated_object_remove(const void *object, const char *kind, const char *call)
{
    if (!fm_emulated_object_is(object, kind, call)) return false;
    state()->objects.erase(object);
    return true;
}
