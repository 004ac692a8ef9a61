#!/usr/bin/env bash
# make check-gpu and make bench-gpu on the emulator with tiny sizes, so that they are known to work when somebody has a
# card: with cuDNN and cuBLAS, without them, and on a machine that is too slow for all parts. This says nothing about cards.
# shellcheck source=tests/slow/common.bash
. "$(dirname "$0")/common.bash"

# gpu NAME VARIABLE=VALUE...: what it says goes to $work/NAME.
gpu() {
    local name=$1
    shift
    env MAKE="${MAKE:-make}" FOLDMILL_PLUGINS="$PWD/build/emulated" "$@" scripts/check_gpu.sh >"$work/$name"
    status=$?
    grep -aE '^(passed|FAILED|cut): |^[0-9]+ passed' "$work/$name"
}

gpu whole FOLDMILL_EMULATOR=
check "make check-gpu runs through on the emulator" test "$status" -eq 0
check "it leaves its report behind" grep -q 'It took' build/check-gpu.txt
check "the benchmark has a row for each network" test "$(grep -acE '^(S|P2) +8 +2 ' build/check-gpu.txt)" = 2
check "nothing is left out" test "$(grep -aciE 'left out:|want of time' "$work/whole")" = 0

gpu bare FOLDMILL_EMULATOR=no_library
check "it runs through on a card without cuDNN and cuBLAS" test "$status" -eq 0
check "and says that the libraries' kernels are left out, and why" \
    grep -aq 'left out: --kernels library, because it has none here (.*no cuBLAS' "$work/bare"

# A build that never ends.
printf '%s\n' '#!/bin/sh' 'sleep 100' >"$work/slow-make"
chmod +x "$work/slow-make"
began=$SECONDS
MAKE=$work/slow-make gpu hurried FOLDMILL_EMULATOR= GPU_SECONDS=3
check "it ends when its time is over ($((SECONDS - began)) s of 3)" test $((SECONDS - began)) -le 9
check "then it fails although no part has" test "$status:$(grep -ac '^FAILED' "$work/hurried")" = 1:0
check "it lists what was cut" grep -aqx '  the build (cut after [123] s)' "$work/hurried"
check "and what was left out" test "$(grep -ac '^  .* (left out)$' "$work/hurried")" = 5
summary
