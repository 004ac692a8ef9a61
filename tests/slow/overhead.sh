#!/usr/bin/env bash
# 1,000 trials of one epoch on 1,000 examples: less than 5 % of the time goes by outside the backend. With one
# lane the backend is one worker thread; everything else - scheduling, journal, measures, set-up, results - is
# the program's first thread, which waits whenever there is nothing to do. So the share outside is the first
# thread's part of the processor time, taken from the kernel's account of each thread, which other programs on
# the machine do not disturb. The wall's view (the time in which the worker did not run) is told, too; it is only
# judged where nothing else ran.
. "$(dirname "$0")/common.bash"

cat >"$work/grid.yaml" <<'YAML'
data: {source: sine, samples: 1000, anomalies: 10, height: 1.0, window: {length: 104, edge: wrap, label: any}}
cv: {split: holdout}
model:
  - conv1d: {filters: "${filters}", kernel_size: 9, activation: relu}
  - max_pooling1d: {pool_size: 4}
  - flatten
  - dense: {units: 20, activation: relu}
  - dense: {units: 2, activation: softmax}
train: {loss: categorical_crossentropy, batch_size: 64, epochs: 1, optimizer: {adam: {learning_rate: "${rate}"}}}
method: grid
parameters:
  filters: {values: [8, 12, 16, 20, 24]}
  rate: {distribution: q_uniform, min: 1e-4, max: 2e-2, q: 1e-4}
YAML

overhead() {
    local wall first others
    "$tool" threads "$work/used" "$foldmill" run "$work/grid.yaml" --lanes 1 --json >"$work/out" 2>"$work/err" || {
        tail -n 1 "$work/err"
        return 1
    }
    read -r wall first others <"$work/used"
    awk -v w="$wall" -v a="$first" -v b="$others" 'BEGIN {
        printf "%.1f s: %.2f s in the backend, %.3f s outside (%.2f %%, %.0f microseconds a run); the worker ran %.1f %% of the time\n",
            w, b, a, 100 * a / (a + b), 1e3 * a, 100 * b / w
        exit !(a / (a + b) < 0.05) }'
}
complete() { [ "$(grep -o '"status": "completed", "mean"' "$work/out" | wc -l)" -eq 1000 ]; }

check "less than 5 % of the time is spent outside the backend" overhead
check "all 1,000 trials are completed" complete
summary
