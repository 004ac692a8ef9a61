#!/usr/bin/env bash
# Every fourth allocation of a small sweep fails, alone and from then on (tests/sweep/test_allocations.c; `make
# check` takes a sample of the places; FOLDMILL_EVERY=1: every single one).
# shellcheck source=tests/slow/common.bash
. "$(dirname "$0")/common.bash"

if ! ${MAKE:-make} -s tests; then
    bad "the tests build"
    summary
fi
declare -A pids
for backend in scripted reference; do
    FOLDMILL_EVERY=${FOLDMILL_EVERY:-4} build/tests/foldmill_tests --filter "allocations/$backend" --timeout 850 \
        >"$work/$backend" 2>&1 &
    background+=($!)
    pids[$backend]=$!
done
ended() {
    wait "$1"
    local code=$?
    tail -n 30 "$2"
    return "$code"
}
check "a failed allocation in a sweep of the scripted backend" ended "${pids[scripted]}" "$work/scripted"
check "a failed allocation in a sweep of the reference backend" ended "${pids[reference]}" "$work/reference"
summary
