/* CSV series: the first byte chooses the sweep, the rest is the file. */
#include "loading.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define PATH "source: csv, path: " FUZZ_PATH ", window: {length: 3, label: any, edge: "

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct fuzz_sweep sweeps[] = {
        {PATH "drop}, features: x, target: y", "categorical_crossentropy", "split: kfold"},
        {PATH "wrap}, features: all, target: {column: y, other: skip}, record: r, missing: ffill",
         "categorical_crossentropy", "split: predefined, column: f"},
        {PATH "drop}, features: [x, \"[yz]\"], target: y, time: t, disorder: split, missing: interpolate",
         "mse", "split: kfold"},
        {PATH
         "wrap}, features: [x, y], target: y, time: t, gap: 3, decimal: \",\", missing: drop, weight: w, "
         "mask: {column: m, keep: 1}",
         "mse", "split: kfold"},
        {PATH "drop}, features: \"0\", target: \"1\", header: false, missing: 0", "categorical_crossentropy",
         "split: kfold"},
        {PATH "drop}, features: x, target: {column: y, classes: [a, b], other: skip}, group: r, missing: {x: "
              "{ffill: 2}}",
         "categorical_crossentropy", "split: group"},
    };
    if (size == 0) return 0;
    size_t k = bytes[0] % (sizeof sweeps / sizeof *sweeps);
    fuzz_file(bytes + 1, size - 1);
    fuzz_load(&sweeps[k]);
    return 0;
}
