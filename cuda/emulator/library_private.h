/* Shared by the stand-ins. */
#ifndef FM_EMULATOR_LIBRARY_PRIVATE_H
#define FM_EMULATOR_LIBRARY_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

#include "emulator/internal.h"
#include "emulator/library.h"

/* cuDNN 9's numbers. */
enum {
    FM_EMULATED_DNN_NOT_INITIALIZED = 1001,
    FM_EMULATED_DNN_BAD_PARAM = 2000,
    FM_EMULATED_DNN_NOT_SUPPORTED = 3000,
    FM_EMULATED_DNN_NO_MEMORY = 4003,
    FM_EMULATED_DNN_EXECUTION_FAILED = 5000
};

struct fm_dnn_handle {
    int card;
    cudaStream_t stream;
    uint32_t ran[3]; /* bit a: algorithm a of this direction ran outside a capture */
};
struct fm_dnn_tensor {
    bool set;
    int n, c, h, w, n_stride, c_stride, h_stride, w_stride;
};
struct fm_dnn_filter {
    bool set;
    int format, k, c, h, w;
};
struct fm_dnn_convolution {
    bool set;
    int stride_h, stride_w, dilation_h, dilation_w, groups, math;
};
struct fm_blas_handle {
    int card;
    cudaStream_t stream;
    char *workspace;
    size_t bytes;
    int math, atomics;
    uint32_t ran; /* bit 2 * op_b + op_a */
};

const struct fm_emulator_library *fm_emulated_library(void);

/* A convolution with its descriptors checked: what the loops need, and copied into them. */
struct fm_emulated_conv {
    int examples, x_rows, y_rows, channels, filters, taps, stride, dilation, groups;
    int64_t x_example, y_example;
};
enum { FM_EMULATED_FORWARD, FM_EMULATED_DATA, FM_EMULATED_FILTER };

/* False with a fault when the descriptors do not fit each other, in which case cuDNN says BAD_PARAM. */
bool fm_emulated_conv_read(struct fm_emulated_conv *conv, const struct fm_dnn_tensor *x,
                           const struct fm_dnn_filter *w, const struct fm_dnn_convolution *convolution,
                           const struct fm_dnn_tensor *y, const char *call);
/* Whether a careful program may run it. */
bool fm_emulated_conv_usable(int direction, int algorithm);
/* Bytes of workspace, or -1 when the algorithm is refused. */
int64_t fm_emulated_conv_workspace(const struct fm_emulated_conv *conv, int direction, int algorithm);
/* Fills answers; gives their number. */
int fm_emulated_conv_answers(const struct fm_emulated_conv *conv, int direction, bool supported,
                             int requested, struct fm_dnn_answer *answers);

/* One operand of a call. */
struct fm_emulated_operand {
    const void *at;
    size_t bytes, alignment;
    const char *name;
};
/* The last operand is the output: it may overlap none of the others nor the workspace. */
bool fm_emulated_operands_check(const struct fm_emulated_operand *operands, int count, int card,
                                const char *call);
/* The handle's card is the current one, and its stream one to work in. */
bool fm_emulated_handle_ready(int card, cudaStream_t stream, const char *call);
/* Fills a workspace with NaN. */
void fm_emulated_scribble(void *workspace, size_t bytes);

int fm_emulated_dnn_forward(struct fm_dnn_handle *handle, const void *alpha,
                            struct fm_dnn_tensor *x_descriptor, const void *x,
                            struct fm_dnn_filter *w_descriptor, const void *w,
                            struct fm_dnn_convolution *convolution, int algorithm, void *workspace,
                            size_t bytes, const void *beta, struct fm_dnn_tensor *y_descriptor, void *y);
int fm_emulated_dnn_backward_data(struct fm_dnn_handle *handle, const void *alpha,
                                  struct fm_dnn_filter *w_descriptor, const void *w,
                                  struct fm_dnn_tensor *dy_descriptor, const void *dy,
                                  struct fm_dnn_convolution *convolution, int algorithm, void *workspace,
                                  size_t bytes, const void *beta, struct fm_dnn_tensor *dx_descriptor,
                                  void *dx);
int fm_emulated_dnn_backward_filter(struct fm_dnn_handle *handle, const void *alpha,
                                    struct fm_dnn_tensor *x_descriptor, const void *x,
                                    struct fm_dnn_tensor *dy_descriptor, const void *dy,
                                    struct fm_dnn_convolution *convolution, int algorithm, void *workspace,
                                    size_t bytes, const void *beta, struct fm_dnn_filter *dw_descriptor,
                                    void *dw);

#endif
