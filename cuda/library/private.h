/* Shared by the files of library/. */
#ifndef FM_CUDA_LIBRARY_PRIVATE_H
#define FM_CUDA_LIBRARY_PRIVATE_H

#include "library/blas.h"
#include "library/dnn.h"
#include "library/library.h"

/* What a status of cuDNN (dnn) or cuBLAS means: 0; 1 when the library only says no, with its reason in `why`
 * ("cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED"); negative with `err` when CUDA failed behind it or memory is
 * out. The numbers of statuses differ between versions, so CUDA and the status's name are asked. `call` is
 * the symbol. */
int fm_dnn_judge(struct fm_device *device, int status, const char *call, char *why, size_t why_size,
                 struct fm_error *err);
int fm_blas_judge(struct fm_device *device, int status, const char *call, char *why, size_t why_size,
                  struct fm_error *err);
/* The same where no is a failure: FM_ELIBRARY, by which the device is not lost. */
int fm_dnn_check(struct fm_device *device, int status, const char *call, struct fm_error *err);
int fm_blas_check(struct fm_device *device, int status, const char *call, struct fm_error *err);

/* As fm_cuda_noted, for what gives something of a library's back. */
void fm_library_noted(struct fm_device *device, int status, const char *call);
#define FM_LIBRARY_NOTED(device, expression, call)                                                           \
    ((device)->dead ? (void)0 : fm_library_noted((device), (expression), (call)))

struct fm_dnn_call {
    enum fm_dnn_direction direction;
    int algorithm;
    size_t workspace;
    struct fm_cuda_conv conv;
    int rows, x_example, y_example; /* as given to fm_dnn_call_new */
    struct fm_dnn_tensor *x, *y;
    struct fm_dnn_filter *w;
    struct fm_dnn_convolution *convolution;
};

/* algorithm.c: fills algorithm and workspace of a call whose descriptors are complete. As fm_dnn_call_new. */
int fm_dnn_choose(struct fm_device *device, struct fm_dnn_handle *handle, struct fm_dnn_call *call,
                  int algorithm, char *why, size_t why_size, struct fm_error *err);

#endif
