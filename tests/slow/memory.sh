#!/usr/bin/env bash
# The memory of large data: 50 million samples in blocked folds take under 5 bytes a sample plus 60 MB, however they
# are read. `foldmill plan` loads them, cuts windows, makes and counts the folds, and exits; its greatest resident size
# is asked of the kernel while it runs.
program=${FOLDMILL:-build/foldmill}
program=$(realpath "$program") || exit 1
folder=$(mktemp -d /tmp/foldmill-memory-XXXXXX) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
good=0 bad=0

sweep() {
    cat >"$1.yaml" <<END
name: $1
data: {$2, window: {length: 104, label: any}}
cv: {split: blocked, folds: 3}
model: [flatten, {dense: {units: 2, activation: softmax}}]
train: {loss: categorical_crossentropy, epochs: 1}
END
}

# name, samples
check() {
    local peak=0 now pid limit
    "$program" plan "$1.yaml" >"$1.out" 2>&1 &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        now=$(awk '/^VmHWM/ {print $2}' "/proc/$pid/status" 2>/dev/null)
        [ "${now:-0}" -gt "$peak" ] && peak=$now
        sleep 0.05
    done
    if ! wait "$pid"; then
        echo "FAILED: $1: $(tail -n 1 "$1.out")"
        bad=$((bad + 1))
        return
    fi
    limit=$((($2 * 5 + 60000000) / 1024))
    if [ "$peak" -gt 0 ] && [ "$peak" -lt "$limit" ]; then
        echo "passed: $1: $peak kB for $2 samples, at most $limit"
        good=$((good + 1))
    else
        echo "FAILED: $1: $peak kB for $2 samples, at most $limit"
        bad=$((bad + 1))
    fi
}

# An array of 50 million bytes: 0, then 1.
array() {
    printf '\x93NUMPY\x01\x00\x46\x00' >"$1"
    printf "%-69s\n" "{'descr': '|u1', 'fortran_order': False, 'shape': (50000000,)}" >>"$1"
    head -c 25000000 /dev/zero >>"$1"
    head -c 25000000 /dev/zero | tr '\0' '\1' >>"$1"
}

sweep sine "source: sine, samples: 50000000, anomalies: 1000000"
check sine 50000000
array x.npy
sweep npy "source: npy, x: x.npy, y: x.npy"
check npy 50000000
awk 'BEGIN {print "t,x,y"; for (i = 0; i < 8000000; i++) printf "%d,%d.%03d,%d\n", i, i % 97, i % 911, int(i / 5000) % 20 == 0}' >a.csv
sweep csv "source: csv, path: a.csv, time: t, features: x, target: y"
check csv 8000000
echo "$good passed, $bad failed"
[ "$bad" -eq 0 ]
