#!/usr/bin/env bash
# Everything that a machine with a GPU can tell about Foldmill, in one text file, build/check-gpu.txt: the contract's
# tests, whole training and the same bits with 1 and many lanes, the same sweep on card and CPU, compute-sanitizer where
# it is found, the benchmark. Under 6 minutes with its build, which is for this card's architecture only: each part has
# a limit of its own, and no more than what is left; what was cut or left out for want of time is told, and then this
# exits with 1. Called by `make check-gpu`; the last line is "N passed, N failed".
#   GPU_SECONDS=N   all parts together (355)
#   FOLDMILL_PLUGINS=build/emulated   tries the script itself on the emulator, with tiny sizes: shows nothing about cards
set -uo pipefail
make=${MAKE:-make}
out=build/check-gpu.txt
passed=0 failed=0 untried=()
mkdir -p build
work=$(mktemp -d "${TMPDIR:-/tmp}/foldmill-gpu.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
exec > >(tee "$out") 2>&1
copying=$!

say() { printf '\n== %s (after %d s) ==\n' "$1" "$SECONDS"; }
# part WHAT SECONDS COMMAND...: one line of the summary.
part() {
    local what=$1 limit=$2 left=$((seconds - SECONDS))
    shift 2
    if [ "$left" -lt 1 ]; then
        untried+=("$what (left out)")
        return
    fi
    if [ "$limit" -gt "$left" ]; then limit=$left; fi
    say "$what"
    timeout -k 4 "$limit" "$@"
    local status=$?
    if [ "$status" -eq 0 ]; then
        passed=$((passed + 1))
        echo "passed: $what"
    elif [ "$SECONDS" -ge "$seconds" ] && { [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; }; then
        untried+=("$what (cut after $limit s)")
        echo "cut: $what (after $limit s)"
    else
        failed=$((failed + 1))
        echo "FAILED: $what ($([ "$status" -eq 124 ] && echo "not done after $limit s" || echo "status $status"))"
    fi
}
finish() {
    local what
    echo
    echo "It took $SECONDS s."
    if [ ${#untried[@]} -gt 0 ]; then
        echo "Not done for want of time; GPU_SECONDS=$((3 * seconds)) gives more:"
        for what in "${untried[@]}"; do echo "  $what"; done
    fi
    echo "$passed passed, $failed failed"
    # The last lines are to be in the file, too, when this is over.
    exec >&- 2>&-
    wait "$copying"
    [ "$failed" -eq 0 ] && [ ${#untried[@]} -eq 0 ]
    exit
}

echo "Foldmill $(git describe --always --dirty 2>/dev/null || echo '(no git)') on $(uname -srm)"
emulated=0 seconds=${GPU_SECONDS:-355}
case ${FOLDMILL_PLUGINS:-} in *emulated*) emulated=1 ;; esac
if [ "$emulated" = 1 ]; then
    echo "This is the emulator with tiny sizes: it tries the programs, it says nothing about any card."
    export GPU_NETWORKS=3
    seconds=${GPU_SECONDS:-800}
    steps='16 2 8' bench='-t -s 0.01 -b 8 -l 1,2'
    contract='gpu/@(states_and_snapshots|evaluations|random_networks)'
    part 'the build' 600 "$make" -s -j"$(nproc)" host emulated gpu-programs
else
    steps='200 16 64' bench='-s 0.15 -b 8,64,512 -l 1,2,4,8,16,32,64'
    contract='gpu/*'
    # A driver that hangs shall not hang this.
    if command -v nvidia-smi >/dev/null; then timeout -k 4 20 nvidia-smi; else echo "There is no nvidia-smi here."; fi
    # The first card's architecture; where the driver is too old to tell, everything that nvcc takes is built.
    WANT=${WANT:-$(timeout -k 4 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -cd '0-9')}
    export WANT FOLDMILL_PLUGINS=$PWD/build
    echo "Built for: ${WANT:-every architecture}"
    part 'the build' 300 "$make" -s -j"$(nproc)" host plugins gpu-programs
    "$make" -s config | sed -n '/CUDA/,$p'
fi
if [ "$failed" -gt 0 ]; then finish; fi

export work
devices() { build/foldmill devices | tee "$work/devices"; }
export -f devices
part 'foldmill devices' 60 bash -o pipefail -c devices
if [ "$failed" -gt 0 ]; then finish; fi
if [ -f "$work/devices" ] && ! grep -q 'sm_' "$work/devices"; then
    echo "No GPU can be used here, see above: nothing else is tried."
    failed=$((failed + 1))
    finish
fi
part 'the contract, Keras and random networks' 120 build/tests/gpu/contract -j1 --filter "$contract"
# shellcheck disable=SC2086
part 'whole training: the same bits, near the CPU, few calls' 60 build/tests/gpu/steps $steps

# One sweep on the card, on the CPU and on the card again: near scores, the same bits.
cat >"$work/sweep.yaml" <<'Y'
data: {source: sine, samples: 4096, anomalies: 40, window: {length: 40, edge: wrap, label: any}}
cv: {split: kfold, folds: 3}
model: [conv1d: {filters: 8, kernel_size: 5, activation: relu}, max_pooling1d: {pool_size: 4}, flatten, dense: {units: 2, activation: softmax}]
train: {loss: categorical_crossentropy, epochs: 2, batch_size: 64, optimizer: {adam: {learning_rate: 0.001}}}
Y
sweep() {
    local device mean=()
    for device in cuda cpu cuda; do
        build/foldmill run "$work/sweep.yaml" --device "$device" --journal "$work/$device.db" --fresh --json -q >"$work/json" || return 1
        mean+=("$(sed -n 's/.*"mean": \([-+.0-9e]*\).*/\1/p' "$work/json" | head -n 1)")
        echo "$device: mean val_loss ${mean[-1]}, $(grep -o '"transfers": {[^}]*}' "$work/json" | head -n 1)"
    done
    [ -n "${mean[0]}" ] && [ "${mean[0]}" = "${mean[2]}" ] || return 1
    awk -v a="${mean[0]}" -v b="${mean[1]}" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d <= 1e-3 * b) }'
}
export -f sweep
part 'a sweep on card and CPU' 90 bash -c sweep

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n 1)
if [ "$emulated" = 1 ]; then
    echo "compute-sanitizer is left out on the emulator."
elif [ -n "$sanitizer" ]; then
    part 'memcheck' 60 "$sanitizer" --tool memcheck --error-exitcode 9 build/tests/gpu/steps 20 2 8
    part 'racecheck' 60 "$sanitizer" --tool racecheck --error-exitcode 9 build/tests/gpu/steps 4 1 8
else
    echo "compute-sanitizer was not found: memcheck and racecheck are left out."
fi

# shellcheck disable=SC2086
part 'the benchmark' 120 build/tests/bench/gpu $bench
finish
