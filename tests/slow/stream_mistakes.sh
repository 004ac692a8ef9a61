#!/usr/bin/env bash
# Twelve mistakes with streams, injected into a small program and looked for on the CUDA emulator: see
# stream_mistakes.c, which prints a line for each and the sum.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

folder=build/slow
mkdir -p "$folder"
if ! ${MAKE:-make} -s build/emulated/libfoldmill_cuda.a ||
    ! ${CC:-gcc} -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -DFM_EMULATED -Isrc -Icuda -Icuda/emulator/include \
        -o "$folder/stream_mistakes" tests/slow/stream_mistakes.c build/emulated/libfoldmill_cuda.a -lstdc++ -lm; then
    echo "FAILED: tests/slow/stream_mistakes.c builds"
    echo "0 passed, 1 failed"
    exit 1
fi
"$folder/stream_mistakes"
