/* Names for profilers (Nsight Systems): ranges around loading, epochs, evaluations. NVTX 3 is header-only and
 * costs about a nanosecond a range when no profiler is attached; where a toolkit has none, nothing is done.
 */
#ifndef FM_CUDA_RANGE_H
#define FM_CUDA_RANGE_H

#if !defined FM_EMULATED && defined __has_include
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define FM_RANGE_BEGIN(name) nvtxRangePushA(name)
#define FM_RANGE_END()       nvtxRangePop()
#endif
#endif
#ifndef FM_RANGE_BEGIN
#define FM_RANGE_BEGIN(name) ((void)0)
#define FM_RANGE_END()       ((void)0)
#endif

#endif
