/* The regularisers' part of the loss of the present parameters, for evaluations. */
#include "kernels/device.h"

#include "kernels/step.h"
#include "kernels/tile.h"

static __device__ double tile_penalty(const struct fm_cuda_update &u, const struct fm_cuda_tile &tile)
{
    const int at = (int)threadIdx.x * 4, count = tile.count - at < 4 ? tile.count - at : 4;
    if (count <= 0 || (tile.l1 == 0 && tile.l2 == 0)) return 0;
    return fm_four_penalty(tile, fm_four_load(u.parameters + tile.offset + at, count));
}

static __global__ void penalty_kernel(struct fm_cuda_place place, struct fm_cuda_update u, double *penalty)
{
    __shared__ double room[FM_STEP_WARPS];
    __shared__ unsigned turn;
    if ((int)blockIdx.x < u.ntiles) {
        const double sum = fm_block_sum(tile_penalty(u, u.tiles[blockIdx.x]), room);
        if (threadIdx.x == 0) u.sums[2 * (int64_t)blockIdx.x + 1] = sum;
    }
    if (!fm_last_block(&place.lane->control.ticket[FM_TICKET_PENALTY], &turn)) return;
    const volatile double *sums = u.sums;
    double sum = 0;
    for (int t = (int)threadIdx.x; t < u.ntiles; t += FM_STEP_THREADS) sum += sums[2 * t + 1];
    sum = fm_block_sum(sum, room);
    if (threadIdx.x == 0) *penalty = sum;
}

cudaError_t fm_cuda_penalty(struct fm_cuda_place place, struct fm_cuda_update update, double *penalty)
{
    return fm_launch(penalty_kernel, dim3((unsigned)(update.ntiles > 0 ? update.ntiles : 1)),
                     dim3(FM_STEP_THREADS), 0, place.stream, place, update, penalty);
}
