/* What the emulator's own files share; the stand-ins for cuDNN and cuBLAS (library*.cc) build on this as
 * well. C++14, without exceptions or run-time types; nothing is constructed before it is first used.
 *
 *   fault.cc    mistakes of the program: counted and printed; injected failures; wild addresses
 *   state.cc    the emulator's one state, settings, counters, objects that exist
 *   card.cc     simulated cards, versions, attributes
 *   names.cc    names of errors
 *   memory.cc   device memory
 *   pinned.cc   pinned host memory
 *   stream.cc   streams, events, the order in which queued work runs
 *   graph.cc    capture, graphs and their replay
 *   copy.cc     copies and memsets
 *   launch.cc   kernel launches
 *   fibers.cc   the threads of a block; switch.cc, switch.S: their stacks; shared.cc: shared memory
 *
 * How a stand-in for a library call looks:
 *
 *     int cudnnSomething(cudnnHandle_t handle, ...)
 *     {
 *         struct fm_emulated_clock clock;
 *         int status = fm_emulated_enter_library(__func__, CUDNN_STATUS_EXECUTION_FAILED);
 *         if (status) return status;
 *         if (!fm_emulated_object_is(handle, "cuDNN handle")) return BAD;   (which counts the fault)
 *         if (!fm_emulated_range_check(x, bytes, card, __func__, "x")) return BAD;
 *         return fm_emulated_enqueue(stream, __func__, [=] { ...computes... }) ? FAILED : 0;
 *     }
 *
 * Work runs later, perhaps many times (graphs): it holds copies of its arguments and reads host scalars at
 * the call. While it runs, the device memory of the stream's card can be read and written by plain loads and
 * stores. */
#ifndef FM_EMULATOR_INTERNAL_H
#define FM_EMULATOR_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include <functional>

#include "emulator/emulator.h"
#include "emulator/include/cuda_runtime_api.h"

/* ---- calls and mistakes -------------------------------------------------------------------------------- */

/* Begins a CUDA call that can fail: cudaSuccess, or what the call has to return at once - because it is the
 * one to fail (`status` unless the settings say another), or because the context is lost. */
cudaError_t fm_emulated_enter(const char *call, cudaError_t status);
/* Begins a library call: 0, or the status it has to return at once. Counts it. */
int fm_emulated_enter_library(const char *call, int status);
/* Sets what cudaGetLastError says, and returns it. */
cudaError_t fm_emulated_error(cudaError_t status);
/* Counts a mistake of the program and prints it to stderr, one line; the first is kept. */
void fm_emulated_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The context is lost: every later call returns this. */
cudaError_t fm_emulated_lose(cudaError_t status);

/* As the first variable of every call: its time counts in driver_ns, once where one call makes another. */
struct fm_emulated_clock {
    fm_emulated_clock();
    ~fm_emulated_clock();
};

const struct fm_emulator_settings *fm_emulated_settings(void);
bool fm_emulated_driver_old(void); /* of an older major version than cudart: nothing works with it */
struct fm_emulator_counts *fm_emulated_counts(void);
uint64_t fm_emulated_random(void); /* by settings.seed */

/* ---- objects: whatever the program must give back (handles, descriptors, streams...) ----------------------
 */

void fm_emulated_object_add(const void *object, const char *kind);
/* Both count a fault when it is not a live object of that kind and return false; `call` is told. */
bool fm_emulated_object_remove(const void *object, const char *kind, const char *call);
bool fm_emulated_object_is(const void *object, const char *kind, const char *call);

/* ---- memory ---------------------------------------------------------------------------------------------
 */

int fm_emulated_card(void); /* cudaSetDevice's */
/* Whether the bytes lie in one live allocation of that card (any card: -1). */
bool fm_emulated_range_live(const void *address, size_t bytes, int card);
/* The same, counting a fault that names the call and the argument; and in one piece of it, where the program
 * deals it out (fm_emulator_piece_take). */
bool fm_emulated_range_check(const void *address, size_t bytes, int card, const char *call,
                             const char *argument);
/* For a library's operand: it may not run out of the part of a piece that it begins in, either. */
bool fm_emulated_operand_check(const void *address, size_t bytes, int card, const char *call,
                               const char *argument);
/* The live allocation that holds the address: false when there is none. */
bool fm_emulated_range_find(const void *address, char **base, size_t *bytes);

/* ---- streams --------------------------------------------------------------------------------------------
 */

/* A live stream that is not the default one, else a fault and false. */
bool fm_emulated_stream_check(cudaStream_t stream, const char *call);
int fm_emulated_stream_card(cudaStream_t stream);
bool fm_emulated_stream_captures(cudaStream_t stream);
/* Puts work into the stream, or into the graph that it captures. `name` must live for ever. Errors as a
 * launch's. */
cudaError_t fm_emulated_enqueue(cudaStream_t stream, const char *name, std::function<void()> work);
/* A call that may allocate or wait (creating a handle, say): illegal while this thread captures, except in
 * relaxed mode. False: a fault was counted and the captures are invalid; return an error. */
bool fm_emulated_may_block(const char *call);

#endif
