#!/usr/bin/env bash
# Whether networks learn what they learn elsewhere. The same two trainings in PyTorch gave, for the proteins, a
# mean validation accuracy of 0.664, and for the made-up series AUCs of 0.970, 0.978 and 0.987.
# shellcheck source=tests/slow/common.bash
. "$(dirname "$0")/common.bash"

cat >"$work/sine.yaml" <<'YAML'
name: sine
data:
  source: sine
  samples: 150000
  anomalies: 1000
  height: 1.0
  seed: 1
  window: {length: 104, edge: wrap, label: any}
cv: {split: holdout, shuffle: false, test_size: 50000}
model:
  - conv1d: {filters: 24, kernel_size: 9, activation: relu}
  - max_pooling1d: {pool_size: 4}
  - flatten
  - dense: {units: 20, activation: relu}
  - dense: {units: 2, activation: softmax}
train: {loss: categorical_crossentropy, optimizer: adam, batch_size: 64, epochs: 3}
metric: {name: val_auc}
YAML

cat >"$work/cb513.yaml" <<YAML
name: cb513
data:
  source: sequences
  path: $PWD/../shared/data/cb513.csv
  record: chain
  group: seq
  sequence: {column: seq, alphabet: ACDEFGHIKLMNPQRSTVWY, unknown: zero}
  target: {column: ss3, classes: HEC}
  mask: {column: mask, keep: "1"}
  window: {length: 17, align: center}
cv: {split: group, folds: 3}
model:
  - repeat: {times: 2, layers: [{conv1d: {filters: 64, kernel_size: 5, padding: same, activation: swish}}]}
  - flatten
  - dense: {units: 3, activation: softmax}
train: {loss: sparse_categorical_crossentropy, optimizer: adam, batch_size: 64, epochs: 6}
metric: {name: val_accuracy}
YAML

# Each seed is a process of its own, all at once.
sine() {
    local seed pids=() means=()
    for seed in 1 2 3; do
        "$tool" measure "$work/used$seed" "$foldmill" run "$work/sine.yaml" --set "data.seed=$seed" --lanes 1 \
            --journal "$work/sine$seed.db" --quiet --json >"$work/sine$seed.json" &
        pids+=($!)
        background+=($!)
    done
    for seed in 1 2 3; do
        wait "${pids[seed - 1]}" || return 1
        means+=("$("$tool" get "$work/sine$seed.json" trials 0 mean)")
    done
    echo "AUC with data seeds 1, 2, 3: ${means[*]}; processor seconds: $(awk '{ printf "%s ", $2 }' "$work"/used?)"
    awk -v a="${means[0]}" -v b="${means[1]}" -v c="${means[2]}" 'BEGIN { exit !((a + b + c) / 3 >= 0.96) }'
}

proteins() {
    local mean
    "$tool" measure "$work/used" "$foldmill" run "$work/cb513.yaml" --quiet --json >"$work/cb513.json" || return 1
    mean=$("$tool" get "$work/cb513.json" trials 0 mean)
    echo "Accuracy: $mean, deviation over folds $("$tool" get "$work/cb513.json" trials 0 std);" \
        "$(awk '{ print $1 " s, " $2 " s of processor time" }' "$work/used")"
    awk -v a="$mean" 'BEGIN { exit !(a >= 0.65) }'
}

check "anomalies in a sine: mean AUC of three data sets at least 0.96" sine
if [ -f ../shared/data/cb513.csv ]; then
    check "secondary structure of CB513: mean accuracy of three folds at least 0.65" proteins
else
    echo "SKIPPED: secondary structure of CB513 (../shared/data/cb513.csv is absent)"
fi
summary
