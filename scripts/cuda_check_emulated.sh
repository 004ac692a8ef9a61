#!/usr/bin/env bash
# scripts/cuda_check_emulated.sh FOLDER [CC]: compares the emulator's declarations of CUDA's run-time library with
# NVIDIA's headers in FOLDER: every value, and the type of every function. What that version of CUDA does not have is
# passed over, and told how much it was. Nothing is linked or run.
set -euo pipefail
ours=$(dirname "$0")/../cuda/emulator/include/cuda_runtime_api.h
folder=$1
compiler=${2:-cc}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

echo '#include <cuda_runtime_api.h>' | "$compiler" -std=c11 -I"$folder" -E -dD -P -x c - > "$work/theirs"
major=$(sed -n 's/^#define CUDART_VERSION \([0-9]*\)...$/\1/p' "$work/theirs")
known() { grep -qw -- "$1" "$work/theirs"; }

checked=0 absent=0
{
    echo '#include <cuda_runtime_api.h>'
    while read -r name value; do
        if known "$name"; then
            echo "_Static_assert((unsigned long long)$name == $value, \"$name\");"
            checked=$((checked + 1))
        else
            absent=$((absent + 1))
        fi
    done < <(sed -nE -e 's/^    (cuda[A-Za-z0-9]+) = ([0-9]+),?$/\1 \2/p' \
        -e 's/^#define (cuda[A-Za-z0-9]+) +(0x[0-9a-f]+)$/\1 \2/p' "$ours")
    # A second declaration of another type is an error. 12 changed the parameters of cudaGraphInstantiate.
    while read -r name declaration; do
        if known "$name" && { [ "$name" != cudaGraphInstantiate ] || [ "$major" -ge 12 ]; }; then
            echo "$declaration"
            checked=$((checked + 1))
        else
            absent=$((absent + 1))
        fi
    done < <(tr '\n' ' ' < "$ours" | grep -oE '(cudaError_t|const char \*) ?cuda[A-Za-z0-9]+\([^;{]*\);' |
        sed -E 's/^(cudaError_t|const char \*) ?(cuda[A-Za-z0-9]+)(.*)$/\2 \1 \2\3/')
} > "$work/check.c"
if [ "$checked" -lt 150 ]; then
    echo "only $checked declarations of the emulator were found: has its header changed its form?" >&2
    exit 1
fi
"$compiler" -std=c11 -Werror -I"$folder" -fsyntax-only "$work/check.c"
echo "the emulator's $checked declarations are those of CUDA ${major}$([ "$absent" -eq 0 ] || echo " (which does not have $absent others)")"
