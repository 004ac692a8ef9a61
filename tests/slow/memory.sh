#!/usr/bin/env bash
# The series lies in memory once and its windows never: `plan`, and `run` while it trains, take under 5 bytes a
# sample plus 60 MB in blocked folds, at most 10 bytes an example more in shuffled ones, from made-up samples and
# from a file. What comes out needs room of its own: a score of four bytes for each validation example, and the
# same again while they are sorted, in every lane; 12 bytes an example while the folds of a trial are pooled. Of
# 1,049,344 samples all that stays under 60 MB, in blocked and in shuffled folds, with the net of a sensor.
# shellcheck source=tests/slow/common.bash
. "$(dirname "$0")/common.bash"

model='model: [{conv1d: {filters: 4, kernel_size: 9, strides: 8, activation: relu}}, flatten, {dense: {units: 2, activation: softmax}}]
train: {loss: categorical_crossentropy, batch_size: 64, epochs: 1, steps_per_epoch: 5}
keep: {predictions: false}'

# most BYTES_A_SAMPLE SAMPLES: what is allowed, in kB.
most() { awk -v b="$1" -v n="$2" 'BEGIN { printf "%d", (b * n + 60e6) / 1024 }'; }

# peak WHAT BYTES SAMPLES COMMAND...: runs the program and compares.
peak() {
    local what=$1 bytes=$2 samples=$3 used kilobytes allowed
    shift 3
    "$tool" measure "$work/used" "$foldmill" "$@" >"$work/out" 2>"$work/err"
    local code=$?
    read -r _ used kilobytes <"$work/used"
    allowed=$(most "$bytes" "$samples")
    echo "$what: $((kilobytes / 1024)) MB of $((allowed / 1024)) MB," \
        "$(awk -v k="$kilobytes" -v n="$samples" 'BEGIN { printf "%.2f", (k * 1024) / n }') bytes a sample in all, $used s"
    if [ "$code" -ne 0 ]; then
        tail -n 2 "$work/err"
        return 1
    fi
    [ "$kilobytes" -lt "$allowed" ]
}

# training WHAT BYTES SAMPLES FILE: the peak of a run in the middle of its first epochs, which are then stopped.
training() {
    local kilobytes allowed code pid
    "$foldmill" run "$4" --lanes 2 --journal "$work/training.db" --set train.steps_per_epoch=100000000 \
        >"$work/out" 2>"$work/err" &
    pid=$!
    background+=("$pid")
    until grep -q "runs are done" "$work/err"; do
        kill -0 "$pid" 2>/dev/null || break
        "$tool" nap 0.1
    done
    "$tool" nap 1
    kilobytes=$(awk '/^VmHWM/ { print $2 }' "/proc/$pid/status")
    kill -TERM "$pid"
    wait "$pid"
    code=$?
    rm -f "$work"/training.db*
    allowed=$(most "$2" "$3")
    echo "$1: $((${kilobytes:-0} / 1024)) MB of $((allowed / 1024)) MB"
    if [ "$code" -ne 75 ] || [ -z "$kilobytes" ]; then
        echo "exit $code: $(tail -n 2 "$work/err")"
        return 1
    fi
    [ "$kilobytes" -lt "$allowed" ]
}

# sine SAMPLES CV
sine() {
    cat >"$work/sine.yaml" <<YAML
data: {source: sine, samples: $1, anomalies: $(($1 / 1000)), height: 1.0, window: {length: 104, edge: wrap, label: any}}
cv: $2
$model
YAML
}
# An array of N bytes: first 0, then 1.
array() {
    {
        printf '\x93NUMPY\x01\x00\x46\x00'
        printf "%-69s\n" "{'descr': '|u1', 'fortran_order': False, 'shape': ($2,)}"
        head -c $(($2 / 2)) /dev/zero
        head -c $(($2 / 2)) /dev/zero | tr '\0' '\1'
    } >"$1"
}
npy() {
    cat >"$work/npy.yaml" <<YAML
data: {source: npy, x: x.npy, y: x.npy, window: {length: 104, label: any}}
cv: $1
$model
YAML
}
# rows FILE N: a value and a label a row, as a logger writes them.
rows() {
    awk -v n="$2" 'BEGIN { print "value,label"
        for (i = 0; i < n; i++) printf "%.4f,%d\n", sin(i) + i % 7 * 0.03, i % 997 < 3 }' >"$1"
}
csv() {
    cat >"$work/csv.yaml" <<YAML
data: {source: csv, path: rows.csv, features: [value], target: label, window: {length: 104, label: any}}
cv: $1
$model
YAML
}

# whole CV: the sine series, net S, from start to end.
whole() {
    local used kilobytes
    cat >"$work/whole.yaml" <<YAML
data: {source: sine, samples: 1049344, anomalies: 1049, height: 1.0, window: {length: 104, edge: wrap, label: any}}
cv: $1
model: [{conv1d: {filters: 24, kernel_size: 9, activation: relu}}, {max_pooling1d: {pool_size: 4}}, flatten,
  {dense: {units: 20, activation: relu}}, {dense: {units: 2, activation: softmax}}]
train: {loss: categorical_crossentropy, optimizer: adam, batch_size: 64, epochs: 1, steps_per_epoch: 50}
metric: {name: val_auc}
YAML
    rm -f "$work"/whole.db*
    "$tool" measure "$work/used" "$foldmill" run "$work/whole.yaml" --lanes 2 --quiet >"$work/out" 2>"$work/err"
    local code=$?
    read -r used _ kilobytes <"$work/used"
    echo "$((kilobytes * 1024 / 1000000)) MB of 60 MB, $used s"
    if [ "$code" -ne 0 ]; then
        tail -n 2 "$work/err"
        return 1
    fi
    [ "$((kilobytes * 1024))" -lt 60000000 ]
}

blocked='{split: blocked, folds: 3, blocks: 12}'
shuffled='{split: kfold, folds: 3}'
many=50000000 fewer=5000000

check "run over 1,049,344 samples in blocks" whole "$blocked"
check "run over 1,049,344 samples, shuffled" whole "$shuffled"
sine $many "$blocked"
check "plan of $many samples in blocks" peak "plan" 5 $many plan "$work/sine.yaml"
check "training on $many samples in blocks" training "training" 5 $many "$work/sine.yaml"
check "run over $many samples in blocks" peak "run, results included" 17 $many \
    run "$work/sine.yaml" --lanes 2 --quiet
sine $many "$shuffled"
check "plan of $many samples, shuffled" peak "plan, shuffled" 15 $many plan "$work/sine.yaml"
array "$work/x.npy" $many
npy "$blocked"
check "plan of an array of $many samples in blocks" peak "plan of an array" 5 $many plan "$work/npy.yaml"
rm "$work/x.npy"
rows "$work/rows.csv" $fewer
csv "$blocked"
check "plan of $fewer rows of CSV in blocks" peak "plan of CSV" 5 $fewer plan "$work/csv.yaml"
check "training on $fewer rows of CSV in blocks" training "training, CSV" 5 $fewer "$work/csv.yaml"
check "run over $fewer rows of CSV in blocks" peak "run over CSV, results included" 17 $fewer \
    run "$work/csv.yaml" --lanes 2 --quiet
csv "$shuffled"
check "training on $fewer rows of CSV, shuffled" training "training, CSV, shuffled" 15 $fewer "$work/csv.yaml"
summary
