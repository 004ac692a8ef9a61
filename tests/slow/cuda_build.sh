#!/usr/bin/env bash
# The real plug-ins, built by nvcc: CUDA 13 (installed, else fetched from PyPI) and CUDA 12 (Debian 13's nvcc 12.4,
# fetched), for few architectures (make cuda-matrix does all). Nothing is run on a card: the plug-ins are opened on this
# machine and have to say in one sentence why they cannot be used, or that they can.
# shellcheck source=tests/slow/common.bash
. "$(dirname "$0")/common.bash"

make=${MAKE:-make}
if [ "$(uname -m)" != x86_64 ]; then
    echo "SKIPPED: the toolkits are fetched for x86-64 only."
    summary
fi

# build MAJOR ARCHITECTURES NVCC: with the sources' warnings as errors.
build() {
    env NVCC="$3" WANT="$2" "$make" -s -j"$(nproc)" plugins MAJOR="$1"
}
# The same where the compiler finds headers unasked that belong to another CUDA, as in /usr/local/include.
build_beside() { CPATH=$work/foreign build "$@"; }
installed() { env -u NVCC "$make" -s build/cuda.mk && sed -n 's/^CUDA_MAJORS := //p' build/cuda.mk | grep -qw "$1"; }

# fetch WHAT MAJOR: whether it is there then. Where PyPI cannot be reached at all nothing is wrong with us.
fetch() {
    if scripts/cuda_toolkit.sh "$2" "build/toolkits/$2" || scripts/cuda_toolkit.sh "$2" "build/toolkits/$2"; then
        ok "$1"
        return
    fi
    if python3 -m pip download -q --no-deps -d "$work/reach" six >/dev/null 2>&1; then
        bad "$1"
    else
        echo "SKIPPED: no way to PyPI from here, so there is no CUDA $2 to try"
    fi
    return 1
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
    check "CUDA 12: the plug-in builds for sm_50" build_beside 12 "50" "$PWD/build/toolkits/12/bin/nvcc"
    plugins+=(build/libfoldmill_cuda12.so)
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
