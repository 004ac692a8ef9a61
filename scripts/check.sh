#!/usr/bin/env bash
# Runs built tests: check.sh TESTS [PLAIN ...]; called by `make check`. Plain programs go first, so that the
# last line is Criterion's summary. Environment: SAN (sanitizers), FILTER (suite/test pattern), SUMMARY (file
# that gets "passed failed"), FOLDMILL (the program under test, for the tests).
set -euo pipefail

tests=$1
shift
passed=0 failed=0 status=0 limit=120 run=()
case $SAN in
*thread*)
    # On kernels with much address randomisation gcc's runtime does not start unless it is switched off.
    if setarch -R true 2>/dev/null; then run=(setarch -R); fi
    export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}"
    ;;
*address*)
    # A leak fails a Criterion test only when it aborts.
    export ASAN_OPTIONS="${ASAN_OPTIONS:-abort_on_error=1}"
    ;;
esac
# What `auto` is must not depend on the machine; tests of plug-ins say where theirs are.
export FOLDMILL_PLUGINS=/nonexistent
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
if [ -n "$SAN" ]; then limit=600; fi

if [ -z "$FILTER" ]; then
    for program in "$@"; do
        if timeout -k 5 "$limit" "${run[@]}" "$program"; then
            passed=$((passed + 1))
        else
            echo "FAILED: $program (status $?)" >&2
            failed=$((failed + 1)) status=1
        fi
    done
fi

case $SAN in
*thread*)
    echo "$passed passed, $failed failed"
    ;;
*)
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    arguments=(--timeout "$limit")
    if [ -n "$FILTER" ]; then arguments+=(--filter "$FILTER"); fi
    "$tests" "${arguments[@]}" 2>&1 | tee "$log" || status=1
    line=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -a 'Synthesis: ' | tail -n 1 || true)
    number() { sed -n "s/.*$1: \([0-9]*\).*/\1/p" <<<"$line"; }
    tested=$(number Tested)
    good=$(number Passing)
    if [ -z "$tested" ] || [ "$tested" -eq 0 ]; then
        echo "No test ran." >&2
        tested=1 good=0 status=1
    fi
    passed=$((passed + good)) failed=$((failed + tested - good))
    ;;
esac
if [ -n "${SUMMARY:-}" ]; then mkdir -p "$(dirname "$SUMMARY")" && echo "$passed $failed" >"$SUMMARY"; fi
exit $status
