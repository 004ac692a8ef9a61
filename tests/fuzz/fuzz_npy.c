/* Arrays: the first byte chooses the sweep, the rest is the .npy (as x and y at once) or the .npz. */
#include "loading.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define F   FUZZ_PATH
#define NPY "source: npy, x: " F ", y: " F
#define NPZ "source: npz, path: " F

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct fuzz_sweep sweeps[] = {
        {NPY, "categorical_crossentropy", "split: kfold"},
        {NPY ", window: {length: 3, label: any, edge: wrap}, group: " F, "sparse_categorical_crossentropy",
         "split: group"},
        {NPY ", window: {length: 3, label: mean}, mask: " F ", weight: " F, "mse", "split: kfold"},
        {NPZ, "sparse_categorical_crossentropy", "split: kfold"},
        {NPZ ", window: {length: 2, label: last, edge: wrap}, lengths: n", "categorical_crossentropy",
         "split: kfold"},
        {NPZ ", window: {length: 2, label: last}, mask: m, group: g, fold: f, weight: w",
         "categorical_crossentropy", "split: predefined"},
        {NPZ, "mse", "split: kfold"},
    };
    if (size == 0) return 0;
    size_t k = bytes[0] % (sizeof sweeps / sizeof *sweeps);
    fuzz_file(bytes + 1, size - 1);
    fuzz_load(&sweeps[k]);
    return 0;
}
