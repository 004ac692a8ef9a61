#!/usr/bin/env bash
# 1,000 trials of one epoch on 1,000 examples: what goes by outside training and evaluation. How that is measured
# stands in tests/plain/plain_overhead.c.
#
# A run of net S on 1,000 examples takes the CPU engine about a millisecond; about 70 to 100 microseconds of processor
# time a run are spent outside, beside the lanes where there is a core for it. Anything else that runs on the machine
# takes the lanes' time away and empties the caches (half of the time was seen to go that way), so the limits here are
# far wider than what a quiet machine shows. They catch mistakes of kind - something done per trial that grows, a lane
# that waits for the journal -; the figures are printed.
# shellcheck source=tests/slow/common.bash
. "$(dirname "$0")/common.bash"

microseconds=300 percent=60 tries=5

if ! ${MAKE:-make} -s plain-programs; then
    bad "tests/plain builds"
    summary
fi
overhead=build/tests/plain/plain_overhead
check "a run takes under $microseconds us outside the backend" "$overhead" 1000 1 scripted "$microseconds" 100 "$tries"
check "so it does among 10,000" "$overhead" 10000 1 scripted "$microseconds" 100 "$tries"
for lanes in 1 2; do
    check "on $lanes lanes under $percent % of the time is spent outside training and evaluation" \
        "$overhead" 1000 "$lanes" cpu 1e9 "$percent" "$tries"
done

# From the start of the program to the first step: the journal says when the first run started. Real data, a sweep
# file as people write it; three tries, for the same reason.
data=../shared/data/machine_temperature.csv
if [ ! -f "$data" ]; then
    echo "skipped: $data is not there"
    summary
fi
cp "$data" "$work/"
cat >"$work/start.yaml" <<'YAML'
data:
  source: csv
  path: machine_temperature.csv
  time: timestamp
  disorder: split
  features: [value]
  target: anomaly
  window: {length: 104, edge: drop, label: any}
  scale: standard
cv: {split: blocked, folds: 3, blocks: 12}
model: [{conv1d: {filters: "${filters}", kernel_size: 9, activation: relu}}, {max_pooling1d: {pool_size: 4}}, flatten,
  {dense: {units: 20, activation: relu}}, {dense: {units: 2, activation: softmax}}]
train:
  loss: categorical_crossentropy
  optimizer: {adam: {learning_rate: "${learning_rate}", global_clipnorm: 1.0}}
  batch_size: "${batch_size}"
  epochs: 1
  steps_per_epoch: 1
  class_weight: balanced
metric: {name: val_auc}
method: grid
parameters: {filters: {values: [8, 24]}, learning_rate: {values: [1e-3, 3e-3]}, batch_size: {values: [8, 64]}}
YAML
start() {
    local began first took
    for _ in 1 2 3; do
        rm -f "$work"/start.db*
        began=$(date +%s.%N)
        "$foldmill" run "$work/start.yaml" --quiet >"$work/out" 2>"$work/err" || return 1
        first=$("$tool" started "$work/start.db") || return 1
        took=$(awk -v a="$began" -v b="$first" 'BEGIN { printf "%.3f", b - a }')
        echo "the first run started after $took s"
        less "$took" 0.3 && return 0
    done
    return 1
}
check "the first run starts within 0.3 s on machine_temperature.csv" start
summary
