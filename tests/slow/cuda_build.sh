#!/usr/bin/env bash
# The real plug-ins, built by nvcc: CUDA 13 (installed, else fetched from PyPI) and CUDA 12 (Debian 13's nvcc 12.4,
# fetched), for few architectures (make cuda-matrix does all). Nothing is run on a card: the plug-ins are opened on this
# machine and have to say in one sentence why they cannot be used, or that they can.
# shellcheck source=tests/slow/common.bash
. "$(dirname "$0")/common.bash"
# shellcheck source=tests/slow/toolkits.bash
. tests/slow/toolkits.bash

make=${MAKE:-make}
# build MAJOR ARCHITECTURES NVCC: with the sources' warnings as errors.
build() {
    env NVCC="$3" WANT="$2" "$make" -s -j"$(nproc)" plugins MAJOR="$1"
}
# The same where the compiler finds headers unasked that belong to another CUDA, as in /usr/local/include.
build_beside() { CPATH=$work/foreign build "$@"; }
installed() { env -u NVCC "$make" -s build/cuda.mk && sed -n 's/^CUDA_MAJORS := //p' build/cuda.mk | grep -qw "$1"; }

# bare MAJOR: that toolkit without headers of cuDNN and cuBLAS beside it, as links. Its folder stays the same, or all
# would be compiled anew the next time.
bare() {
    local part to=$PWD/build/slow/bare$1
    rm -rf "$to"
    mkdir -p "$to"
    for part in bin nvvm include lib64; do cp -al "build/toolkits/$1/$part" "$to/"; done
    echo "$to"
}
# compare NVCC FLAGS...: our declarations with the headers that the flags name.
compare() {
    local nvcc=$1
    shift
    "$nvcc" "$@" -std=c++14 -Wno-deprecated-gpu-targets -Isrc -Iinclude -Icuda -c cuda/library/check_headers.cu -o "$work/check.o"
}
# compared MAJOR: with its own cuDNN and cuBLAS, and that a header with another value would be told.
compared() {
    local nvcc=$PWD/build/toolkits/$1/bin/nvcc flags host own other=$work/altered
    NVCC=$nvcc WANT=50 scripts/cuda_probe.sh probe >"$work/probed"
    flags=$(sed -n "s/^CUDA_$1_HEADERS :=//p" "$work/probed")
    host=$(sed -n "s/^CUDA_$1_NVCC := [^ ]* *//p" "$work/probed")
    own=$PWD/build/toolkits/$1/libraries/include
    echo "flags:$flags"
    # shellcheck disable=SC2086
    case $flags in
    *"-isystem $own -DHAVE_CUDNN_H=1 -DHAVE_CUBLAS_H=1"*) compare "$nvcc" $host $flags || return 1 ;;
    *) return 1 ;;
    esac
    cp -r "$own" "$other"
    sed -i 's/\(CUBLAS_PEDANTIC_MATH *= *\)[0-9]*/\177/' "$other/cublas_api.h"
    # shellcheck disable=SC2086
    if compare "$nvcc" $host ${flags//$own/$other} >"$work/told" 2>&1; then return 1; fi
    grep -m 1 'error' "$work/told"
}

nvcc13=''
plugins=()
if ! installed 13; then
    nvcc13=$PWD/build/toolkits/13/bin/nvcc
fi
if [ -z "$nvcc13" ] || fetch "CUDA 13 comes from PyPI" 13; then
    check "CUDA 13: the plug-in builds for sm_75 and sm_120" build 13 "75 120" "$nvcc13"
    plugins+=(build/libfoldmill_cuda13.so)
fi
if fetch "CUDA 12 comes from Debian and PyPI" 12; then
    # Nothing comes beside this toolkit, so the compiler would find these.
    mkdir -p "$work/foreign"
    for header in cudnn.h cublas_v2.h; do echo '#error "of another CUDA"' >"$work/foreign/$header"; done
    check "CUDA 12: the plug-in builds for sm_50 beside headers of another CUDA" build_beside 12 "50" "$(bare 12)/bin/nvcc"
    check "they are not what our declarations are compared with" \
        grep -q '^CUDA_12_HEADERS := -DHAVE_CUDNN_H=0 -DHAVE_CUBLAS_H=0$' build/cuda.mk
    plugins+=(build/libfoldmill_cuda12.so)
    if fetch "the headers of its cuDNN and cuBLAS come from PyPI" 12 headers; then
        check "CUDA 12: our declarations are those of its own cuDNN and cuBLAS" compared 12
    fi
fi
if [ ${#plugins[@]} -eq 0 ]; then summary; fi

for plugin in "${plugins[@]}"; do
    check "$plugin needs no library of NVIDIA's to be opened and shows one function" scripts/cuda_needed.sh "$plugin"
done
look() { "$make" -s build/tests/gpu/usable && build/tests/gpu/usable "${plugins[@]}" >"$work/said" && cat "$work/said"; }
check "the plug-ins open here and say whether they can be used" look
if [ ! -e /proc/driver/nvidia/version ] && [ ! -e /dev/dxg ]; then
    check "without a driver they ask for one" test "$(grep -c 'driver' "$work/said")" = ${#plugins[@]}
    # In a folder of their own, so that nothing else in build/ is taken for a plug-in.
    mkdir -p "$work/plugins"
    cp "${plugins[@]}" "$work/plugins/"
    printf '%s\n' 'data: {source: sine, samples: 512, anomalies: 10, window: {length: 16, label: any}}' 'cv: {split: kfold, folds: 2}' \
        'model: [flatten, dense: {units: 2, activation: softmax}]' 'train: {loss: categorical_crossentropy, epochs: 1, batch_size: 32}' >"$work/sweep.yaml"
    refused() {
        FOLDMILL_PLUGINS=$work/plugins "$foldmill" run "$work/sweep.yaml" --device cuda >"$work/out" 2>"$work/err"
        local status=$?
        cat "$work/err"
        [ "$status" -eq 2 ] && grep -q 'driver' "$work/err"
    }
    check "run --device cuda is refused with the reason" refused
    falls_back() { FOLDMILL_PLUGINS=$work/plugins "$foldmill" run "$work/sweep.yaml" --device auto -q >"$work/out"; }
    check "run --device auto computes on the CPU" falls_back
fi
# They were built for few cards: nobody shall install them. The next make asks for the toolkits again.
rm -f "${plugins[@]}" build/cuda.mk
summary
