/* Sequences: the first byte chooses the sweep, the rest is the CSV file. */
#include "loading.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define PATH "source: sequences, path: " FUZZ_PATH ", window: {length: 3, edge: "

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct fuzz_sweep sweeps[] = {
        {PATH "zero}, sequence: {column: s, alphabet: ACDEFGHIKLMNPQRSTVWY}, target: t, record: id",
         "categorical_crossentropy", "split: kfold"},
        {PATH "wrap}, sequence: {column: s, alphabet: ACGT, unknown: letter}, target: {column: t, classes: "
              "HEC, other: "
              "skip}, mask: {column: m, keep: 1}, group: s",
         "categorical_crossentropy", "split: group"},
        {PATH "drop}, sequence: {column: s, alphabet: AB, unknown: error}, target: t, weight: w", "mse",
         "split: predefined, column: f"},
    };
    if (size == 0) return 0;
    size_t k = bytes[0] % (sizeof sweeps / sizeof *sweeps);
    fuzz_file(bytes + 1, size - 1);
    fuzz_load(&sweeps[k]);
    return 0;
}
