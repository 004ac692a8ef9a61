/* Dropout: a thread draws the four numbers of one Philox block (engine/dropout.h) and uses them. */
#include "kernels/philox.h"
#include "kernels/rows.h"

struct dropout_shape {
    int rows, channels, blocks; /* blocks of four draws: of an example, or of a row when spatial */
    int index, id, spatial, accumulate;
};

static __global__ void dropout(fm_cuda_place place, dropout_shape s, fm_cuda_tensor x, fm_cuda_tensor y)
{
    if (!fm_turn(place)) return;
    const int copies = s.spatial ? s.rows : 1; /* rows that share the draws */
    const int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= (int64_t)place.rows * copies * s.blocks) return;
    const int block = (int)(thread % s.blocks), row = (int)(thread / s.blocks % copies);
    const int i = (int)(thread / s.blocks / copies);

    const fm_cuda_lane &lane = *place.lane;
    const double rate = lane.hyper.rates[s.index];
    const float share = (float)(1 - rate);
    const uint64_t step = (uint64_t)lane.control.step;
    const uint64_t key = fm_device_philox_key(fm_device_philox(
        (uint32_t)step, (uint32_t)(step >> 32), (uint32_t)s.id, (uint32_t)i, lane.dropout_key));
    const fm_philox_block bits = fm_device_philox((uint32_t)block, 0, 0, 0, key);

    const int draws = s.spatial ? s.channels : s.rows * s.channels;
    const float *from = x.at + (int64_t)i * x.example + row * s.channels;
    float *to = y.at + (int64_t)i * y.example + row * s.channels;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int e = block * 4 + k;
        if (e >= draws) break;
        const float v = (double)fm_device_uniform(bits.word[k]) >= rate ? from[e] / share : 0.0f;
        to[e] = s.accumulate ? to[e] + v : v;
    }
}

cudaError_t fm_cuda_dropout(struct fm_cuda_place place, int rows, int channels, int index, int id,
                            int spatial, struct fm_cuda_tensor x, int accumulate, struct fm_cuda_tensor y)
{
    dropout_shape s;
    s.rows = rows;
    s.channels = channels;
    s.blocks = ((spatial ? channels : rows * channels) + 3) / 4;
    s.index = index;
    s.id = id;
    s.spatial = spatial;
    s.accumulate = accumulate;
    const int64_t threads = (int64_t)place.rows * (spatial ? rows : 1) * s.blocks;
    return fm_launch(dropout, dim3(fm_blocks_for(threads, 128)), dim3(128), 0, place.stream, place, s, x, y);
}
