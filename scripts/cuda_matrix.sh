#!/usr/bin/env bash
# Compiles the CUDA half with every toolkit that is needed to serve all cards from sm_35 to sm_120, checks Foldmill's
# own declarations against each one's cuDNN and cuBLAS headers, compiles the kernels for sm_30 to PTX (no toolkit for
# it is to be had; clang knows it), and prints a table. Called by `make cuda-matrix`; what it fetches stays in
# build/toolkits. Without the network it says so and fails.
#   MATRIX_TOOLKITS   only these (13 12 11)      MATRIX_HEADERS=0   without the libraries' headers (2.3 GB less)
set -uo pipefail
make=${MAKE:-make}
toolkits=${MATRIX_TOOLKITS:-13 12 11}
headers=headers
if [ "${MATRIX_HEADERS:-1}" = 0 ]; then headers=''; fi
root=$PWD/build/toolkits
mkdir -p "$root"
failed=0 lines=''
value() { sed -n "s/^CUDA_$1 :=[[:space:]]*//p" build/cuda.mk; }
row() { lines+="$(printf '%-9s %-8s %-7s %6s  %s' "$@")"$'\n'; }

# versions MAJOR: of the headers that the declarations were compared with.
versions() {
    local text
    printf '%s\n' '#if HAVE_CUDNN_H' '#include <cudnn.h>' 'fm_is cuDNN CUDNN_MAJOR.CUDNN_MINOR' '#endif' \
        '#if HAVE_CUBLAS_H' '#include <cublas_v2.h>' 'fm_is cuBLAS CUBLAS_VER_MAJOR.CUBLAS_VER_MINOR' '#endif' >"$work/versions.cu"
    # Lines that tell where a macro came from stand between the words.
    # shellcheck disable=SC2046
    text=$($(value "$1_NVCC") -E $(value "$1_HEADERS") "$work/versions.cu" 2>/dev/null | grep -v '^#' | tr '\n' ' ' |
        grep -o 'fm_is [a-zA-Z]* *[0-9]* *\. *[0-9]*' | sed 's/fm_is //; s/ *\. */./; s/  */ /g' | paste -sd, | sed 's/,/, /')
    echo "${text:-no headers}"
}

work=$(mktemp -d "${TMPDIR:-/tmp}/foldmill-matrix.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
for major in $toolkits; do
    started=$SECONDS
    if ! scripts/cuda_toolkit.sh "$major" "$root/$major" $headers; then
        row "CUDA $major" - - - 'FAILED: could not be fetched (see above)'
        failed=1
        continue
    fi
    # This one and no other: NVCC comes first, whatever the machine has.
    export NVCC=$root/$major/bin/nvcc
    if "$make" -s -j"$(nproc)" plugins MAJOR="$major" WANT="${WANT:-}"; then
        for arch in $(value "${major}_ARCHS"); do row "sm_$arch" "CUDA $major" code '' ''; done
        size=$(du -k "build/libfoldmill_cuda$major.so" | cut -f 1)
        row "CUDA $major" "$(value "${major}_VERSION")" "${size}K" "$((SECONDS - started)) s" "declarations compared with $(versions "$major")"
    else
        row "CUDA $major" "$(value "${major}_VERSION")" - "$((SECONDS - started)) s" 'FAILED: did not build (see above)'
        failed=1
    fi
done
unset NVCC

# sm_30: what clang-14 makes of the kernels with CUDA 11's headers; ptxas takes the PTX for its oldest card.
# Our folder comes last: clang itself includes cuda.h, of which we have one as well.
ptx() {
    local source=$1 name
    name=$(basename "${source%.cu}")
    "$clang" -x cuda --cuda-path="$root/clang11" -isystem "$root/clang11/include" --cuda-gpu-arch=sm_30 --no-cuda-version-check \
        -Wno-unknown-cuda-version --cuda-device-only -S -O2 -std=c++14 -ffp-contract=off -Isrc -Iinclude -idirafter cuda "$source" -o "$work/$name.ptx" &&
        grep -q '^\.target sm_30' "$work/$name.ptx" &&
        "$root/clang11/bin/ptxas" -arch=sm_35 "$work/$name.ptx" -o "$work/$name.cubin" 2>"$work/$name.log" || {
        cat "$work/$name.log" >&2 2>/dev/null
        echo "$source does not compile for sm_30" >&2
        return 1
    }
}
clang=$(command -v clang++-14 || command -v clang++ || true)
if [ -z "$clang" ]; then
    row sm_30 clang - '' "FAILED: clang++ is missing ('scripts/setup.sh slow' installs it)"
    failed=1
elif ! scripts/cuda_toolkit.sh clang11 "$root/clang11"; then
    row sm_30 clang - '' 'FAILED: could not be fetched (see above)'
    failed=1
else
    good=1
    for source in cuda/kernels/*.cu; do ptx "$source" || good=0; done
    if [ "$good" = 1 ]; then
        row sm_30 clang PTX '' 'compiles; a card of this kind needs a build with CUDA 10.2, which nobody has tried'
    else
        row sm_30 clang - '' 'FAILED: does not compile (see above)'
        failed=1
    fi
fi

echo
echo "card      toolkit  made      time  remarks"
printf '%s' "$lines" | sort -s -V -k1,1
exit "$failed"
