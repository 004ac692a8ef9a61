#!/usr/bin/env bash
# make cuda-matrix, its smallest part: CUDA 11 (Debian 12's nvcc 11.8, fetched) for the oldest card that it serves and
# the oldest that it shares with CUDA 12, and the kernels as PTX for sm_30. tests/slow/cuda_build.sh has 12 and 13.
# shellcheck source=tests/slow/common.bash
. "$(dirname "$0")/common.bash"
# shellcheck source=tests/slow/toolkits.bash
. tests/slow/toolkits.bash

fetch "CUDA 11 comes from Debian" 11 || summary
fetch "clang's parts of CUDA 11 come from PyPI" clang11 || summary
MAKE=${MAKE:-make} MATRIX_TOOLKITS=11 MATRIX_HEADERS=0 WANT='35 50' scripts/cuda_matrix.sh >"$work/table"
status=$?
cat "$work/table"
check "the matrix of CUDA 11 is whole" test "$status:$(grep -c FAILED "$work/table")" = 0:0
check "it has code for sm_35 and sm_50, and PTX for sm_30" \
    test "$(grep -cE '^sm_(35|50) +CUDA 11 +code|^sm_30 +clang +PTX' "$work/table")" = 3
check "the declarations were compared with its own cuBLAS" grep -qE '^CUDA 11 .*compared with .*cuBLAS 11\.' "$work/table"
check "the plug-in needs no library of NVIDIA's to be opened" scripts/cuda_needed.sh build/libfoldmill_cuda11.so
# It was built for few cards: nobody shall install it. The next make asks for the toolkits again.
rm -f build/libfoldmill_cuda11.so build/cuda.mk
summary
