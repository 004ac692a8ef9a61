#!/usr/bin/env bash
# The slow checks, called by `make slow`: sanitizers over the suite, fuzzers, then tests/slow/*.sh in turn. Every
# step runs even if one before it failed; the last line counts all tests, fuzzers and programs.
#   FUZZ_SECONDS   seconds of each fuzzer (30)
#   STEPS          only these: any of "address thread fuzz slow" (all)
set -uo pipefail

make=${MAKE:-make}
seconds=${FUZZ_SECONDS:-30}
steps=${STEPS:-address thread fuzz slow}
passed=0 failed=0

count() { passed=$((passed + $1)) failed=$((failed + $2)); }
headline() { printf '\n== %s ==\n' "$1"; }

# A suite that did not even build leaves no summary behind, and counts as one failure.
suite() {
    local summary=build/san-${1//,/-}/summary good bad
    headline "the suite under the sanitizers $1"
    rm -f "$summary"
    if "$make" -s check SAN="$1" T= && read -r good bad <"$summary"; then
        count "$good" "$bad"
    elif [ -f "$summary" ] && read -r good bad <"$summary"; then
        count "$good" "$((bad > 0 ? bad : 1))"
    else
        echo "FAILED: the suite under $1 did not build or did not end"
        count 0 1
    fi
}

fuzz_one() {
    local program=$1 name corpus work
    name=$(basename "$program")
    corpus=tests/fuzz/corpus/${name#fuzz_}
    work=build/fuzz/$name
    rm -rf "$work"
    mkdir -p "$work/found"
    local seeds=()
    if [ -d "$corpus" ]; then seeds=("$corpus"); fi
    # What is found goes into a folder under build/; the committed corpus is only read.
    timeout -k 10 $((seconds + 90)) "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="$work/" "$work/found" "${seeds[@]}" >"$work/log" 2>&1
    echo $? >"$work/status"
}

fuzzers() {
    local san=fuzzer-no-link,address,undefined folder programs=() program running=0 name
    headline "fuzzers, $seconds s each"
    if ! ls tests/fuzz/fuzz_*.c >/dev/null 2>&1; then
        echo "There are no fuzzers in tests/fuzz."
        return
    fi
    if ! echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n > 9 ? 0 : 0; }' |
        clang -fsanitize=fuzzer,address,undefined -x c - -o /dev/null 2>/dev/null; then
        echo "SKIPPED: clang's fuzzer runtime is missing (Debian: clang, libclang-rt-14-dev)."
        return
    fi
    folder=build/san-${san//,/-}
    if ! "$make" -s -j"$(nproc)" fuzzers CC=clang SAN="$san"; then
        echo "FAILED: the fuzzers did not build"
        count 0 1
        return
    fi
    for program in tests/fuzz/fuzz_*.c; do programs+=("$folder/fuzz/$(basename "${program%.c}")"); done
    for program in "${programs[@]}"; do
        if [ "$running" -ge "$(nproc)" ]; then
            wait -n
            running=$((running - 1))
        fi
        fuzz_one "$program" &
        running=$((running + 1))
    done
    wait
    for program in "${programs[@]}"; do
        name=$(basename "$program")
        if [ "$(cat "build/fuzz/$name/status" 2>/dev/null)" = 0 ]; then
            echo "passed: $name, $(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$name/log") inputs"
            count 1 0
        else
            echo "FAILED: $name; what broke it lies in build/fuzz/$name"
            tail -n 40 "build/fuzz/$name/log"
            count 0 1
        fi
    done
}

# Each prints "N passed, N failed" as its last line; a script that fails without saying so counts as one failure.
scripts() {
    local script log line good bad status
    log=$(mktemp)
    for script in tests/slow/*.sh; do
        [ -f "$script" ] || continue
        headline "$script"
        timeout -k 10 900 bash "$script" 2>&1 | tee "$log"
        status=${PIPESTATUS[0]}
        line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
        good=${line%% passed*}
        bad=${line#*, }
        bad=${bad%% failed}
        if [ -z "$line" ]; then good=0 bad=1; fi
        if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
        count "$good" "$bad"
        if [ "$bad" -ne 0 ]; then echo "FAILED: $script (status $status)"; fi
    done
    rm -f "$log"
}

# The scripts use the plain program.
if ! "$make" -s -j"$(nproc)" host; then
    echo "FAILED: the program did not build"
    count 0 1
fi
for step in $steps; do
    case $step in
    address) suite address,undefined ;;
    thread) suite thread ;;
    fuzz) fuzzers ;;
    slow) scripts ;;
    *)
        echo "STEPS: '$step' is none of address, thread, fuzz, slow"
        count 0 1
        ;;
    esac
done

mkdir -p build
echo "$passed $failed" >build/slow-summary
echo
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
