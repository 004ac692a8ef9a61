#!/usr/bin/env bash
# Every fourth allocation of a small sweep fails, alone and from then on (tests/sweep/test_allocations.c; `make
# check` takes a sample of the places; FOLDMILL_EVERY=1: every single one).
# shellcheck source=tests/slow/common.bash
. "$(dirname "$0")/common.bash"

if ! ${MAKE:-make} -s tests; then
    bad "the tests build"
    summary
fi
export FOLDMILL_EVERY=${FOLDMILL_EVERY:-4}
for backend in scripted reference; do
    begin "$backend" build/tests/foldmill_tests --filter "allocations/$backend" --timeout 850
done
check "a failed allocation in a sweep of the scripted backend" ended scripted 30
check "a failed allocation in a sweep of the reference backend" ended reference 30
summary
