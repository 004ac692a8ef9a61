#!/usr/bin/env bash
# The story of honest folds, told by the program itself on real data: the same networks on the same sensor series, once
# with windows shuffled into folds, once with whole stretches of time as folds. Called by `make demo`.
set -euo pipefail
program=${1:-build/foldmill}
out=build/demo
mkdir -p "$out"

say() { printf '\n%s\n' "$*"; }

say "1. Shuffled folds of machine_temperature: what would run, and how many training windows share positions with validation windows"
"$program" plan folds/machine_temperature_shuffled.yaml
say "2. Training on shuffled folds"
"$program" run folds/machine_temperature_shuffled.yaml --journal "$out/shuffled.db"

say "3. The same on blocked folds: whole stretches of time, training windows that overlap a validation window purged"
"$program" plan folds/machine_temperature_blocked.yaml
say "4. Training on blocked folds"
"$program" run folds/machine_temperature_blocked.yaml --journal "$out/blocked.db"

say "Same network, same data. The shuffled score says how well the network remembers windows it has nearly seen; the
blocked score says how well it does on a stretch of time it has never seen. Only the second will hold tomorrow.
Look closer: $program show folds/machine_temperature_blocked.yaml --journal $out/blocked.db --trial 1"
