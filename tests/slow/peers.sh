#!/usr/bin/env bash
# scripts/bench_peers.py from end to end, with Foldmill as the only contestant: rivals need not be installed.
# shellcheck source=tests/slow/common.bash
. "$(dirname "$0")/common.bash"

if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    echo "SKIPPED: there is no python3 of version 3.9 or later"
    summary
fi
# The row of the table, with a time that is a number.
times() {
    python3 -B scripts/bench_peers.py --foldmill "$foldmill" --only foldmill --networks S --batches 1,64 \
        --rounds 1 --slice 0.2 --save "$work/saved.json" >"$work/table" 2>"$work/messages" &&
        [ "$(grep -cE '^\| S, (1|64) \| \*\*[0-9,.]+(\\\*)?\*\* \|$' "$work/table")" = 2 ] &&
        python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))["rows"]) == 2' "$work/saved.json"
}
# A program that is not there is said and is no row.
missing() {
    ! python3 -B scripts/bench_peers.py --foldmill "$work/none" --only foldmill >"$work/table" 2>"$work/messages" &&
        grep -q '^skipped: foldmill: ' "$work/messages" && [ ! -s "$work/table" ]
}
check "scripts/bench_peers.py tests itself" python3 -B scripts/bench_peers.py --self-test
check "foldmill bench becomes a table, after the losses fell" times
if [ "$failed" -gt 0 ]; then cat "$work/messages" "$work/table"; fi
check "a missing contestant is left out with a reason" missing
summary
