#!/usr/bin/env bash
# Usage: scripts/bench.sh   (make bench) - measures this machine with `foldmill bench`. Where
# ../shared/prototypes/cpu_kernels lies beside the repository, also builds that prototype and compares row by row, in
# turns on one core: ours with AVX-512, the prototype, ours with AVX2 (each as far as the processor has it).
# Environment: ROUNDS (turns of each; default 3, the best counts), SLICE (seconds of a turn; default 0.5).
# What is empty shall be no argument of least:
# shellcheck disable=SC2086
set -euo pipefail
cd "$(dirname "$0")/.."
foldmill=$PWD/build/foldmill study=../shared/prototypes/cpu_kernels out=build/bench
rounds=${ROUNDS:-3} slice=${SLICE:-0.5}
# The issue's targets on the machine of the study, us a step: network, batch, target; AVX2 may take 1.2 times at batch 1,
# 1.9 times from 64 on (in between nothing is asked; 1.9 is shown).
rows="S 1 10
S 8 18
S 64 95
S 128 185
S 4096 6000
P2 1 36
P2 8 145
P2 64 1050
P3 1 65
P3 8 275
P3 64 1950"

"$foldmill" bench
[ -f "$study/build.sh" ] || exit 0

mkdir -p "$out"
[ -x "$out/cpu_kernels" ] || OUT=$PWD/$out sh -e "$study/build.sh"
choices=$("$foldmill" devices | sed -n 's/.*FOLDMILL_ISA can be //p')
isas=(portable) prototype=2
case $choices in
avx512*) isas=(avx512 avx2) prototype=0 ;;
avx2*) isas=(avx2) prototype=1 ;;
esac
core=$(taskset -cp $$ | sed 's/.*[ ,-]//')

# Microseconds a step.
ours() { # instruction set, network, batch
    FOLDMILL_ISA=$1 taskset -c "$core" "$foldmill" bench --device cpu --network "$2" --batch "$3" --seconds "$slice" |
        awk -v n="$2" -v b="$3" '$1 == n && $2 == b {print $5}'
}
theirs() { # network, batch, steps
    taskset -c "$core" "$out/cpu_kernels" bench "${1: -1}" "$2" "$prototype" "$3" |
        sed -n 's/.*: \([0-9.]*\) us\/step.*/\1/p'
}
least() { printf '%s\n' "$@" | sort -g | head -n 1; }

printf '\nBeside the prototype, us a step on core %s, best of %s turns of %s s; target: the issue'\''s, on the study'\''s machine\n' \
    "$core" "$rounds" "$slice"
printf '%-7s %5s %10s %10s %12s %8s %12s\n' network batch "${isas[0]}" prototype ours/theirs target ours/target
second=${isas[1]:-}
lines=''
while read -r network batch target; do
    first='' other='' theirs=''
    steps=$(awk -v s="$slice" -v t="$target" 'BEGIN {n = int(s * 1e6 / t); print n < 10 ? 10 : n}')
    for ((round = 0; round < rounds; round++)); do
        first=$(least $first "$(ours "${isas[0]}" "$network" "$batch")")
        theirs=$(least $theirs "$(theirs "$network" "$batch" "$steps")")
        [ -z "$second" ] || other=$(least $other "$(ours "$second" "$network" "$batch")")
    done
    awk -v n="$network" -v b="$batch" -v a="$first" -v t="$theirs" -v g="$target" \
        'BEGIN {printf "%-7s %5d %10.1f %10.1f %12.2f %8d %12.2f\n", n, b, a, t, a / t, g, a / g}'
    [ -z "$second" ] || lines+="$network $batch $other $first $target"$'\n'
done <<<"$rows"
[ -n "$second" ] || exit 0

printf '\n%-7s %5s %10s %13s %8s %12s\n' network batch "$second" "$second/${isas[0]}" allowed ours/allowed
printf %s "$lines" | awk '{allowed = $5 * ($2 == 1 ? 1.2 : 1.9)
    printf "%-7s %5d %10.1f %13.2f %8d %12.2f\n", $1, $2, $3, $3 / $4, allowed, $3 / allowed}'
