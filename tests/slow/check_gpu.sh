#!/usr/bin/env bash
# make check-gpu and make bench-gpu on the emulator with tiny sizes, so that they are known to work when somebody has a
# card. This says nothing about cards.
# shellcheck source=tests/slow/common.bash
. "$(dirname "$0")/common.bash"

MAKE=${MAKE:-make} FOLDMILL_PLUGINS=$PWD/build/emulated scripts/check_gpu.sh >"$work/log"
status=$?
grep -aE '^(passed|FAILED): |^[0-9]+ passed' "$work/log"
check "make check-gpu runs through on the emulator" test "$status" -eq 0
check "it leaves its report behind" grep -q 'It took' build/check-gpu.txt
check "the benchmark has a row for each network" test "$(grep -acE '^(S|P2) +8 +2 ' build/check-gpu.txt)" = 2
summary
