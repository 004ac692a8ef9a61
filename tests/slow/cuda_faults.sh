#!/usr/bin/env bash
# Every CUDA, cuDNN and cuBLAS call of a small sweep on the emulated GPU fails in turn, once by itself and once
# with all that come after it. The exit code says what happened, the emulator finds no mistake on the way out,
# and the same command again ends with the results of an undisturbed run, or with those of own kernels where a plan
# lost the device. Odd calls fail for good, even ones once (in tests/cuda/test_cuda_lanes.c every one does both);
# fewer for want of memory and on two cards. FIRST, LAST, STEP choose other calls, KERNELS the kernels: both, side
# by side.
# shellcheck source=tests/slow/common.bash
. "$(dirname "$0")/common.bash"

if [ -z "${KERNELS:-}" ]; then
    for kernels in own library; do KERNELS=$kernels begin "$kernels" bash "tests/slow/${0##*/}"; done
    check "calls fail, own kernels" ended own
    check "calls fail, library kernels" ended library
    summary
fi

export FOLDMILL_PLUGINS=${foldmill%/*}/emulated
if ! compgen -G "$FOLDMILL_PLUGINS/libfoldmill_cuda_emulated.so" >/dev/null; then make -s emulated || exit 1; fi

cat >"$work/s.yaml" <<'END'
data: {source: sine, samples: 260, anomalies: 20, height: 3, window: {length: 8, edge: wrap, label: any}}
cv: {split: blocked, folds: 2}
model: [conv1d: {filters: 2, kernel_size: 3, activation: relu}, flatten, dense: {units: 2, activation: softmax}]
train: {loss: categorical_crossentropy, batch_size: 64, epochs: 2, early_stopping: {patience: 1, restore_best_weights: true}}
metric: {name: val_auc}
END

# run SETTINGS JOURNAL: results in $work/out, messages in $work/err. On $device, with $cards before SETTINGS.
device=cuda cards=''
run() {
    FOLDMILL_EMULATOR=$cards$1 "$foldmill" run "$work/s.yaml" --device "$device" --kernels "$kernels" --lanes 2 --quiet --json \
        --journal "$2" >"$work/out" 2>"$work/err"
}

# Out of memory is a run's own result. A library that does not answer which algorithm it would take is not used
# there, which the journal says. Everything else must come out as if nothing had been.
chosen_otherwise() { ! "$tool" choices "$1" | cmp -s - "$work/choices"; }
judge() {
    local code=$1 journal=$2
    if grep -q '^CUDA emulator' "$work/err"; then return 1; fi
    case $code in
    0) grep -q '"code": "oom"' "$work/out" || chosen_otherwise "$journal" || "$tool" same "$work/expected" "$work/out" ;;
    1) grep -q 'every valid trial failed\|found no memory\|out of memory' "$work/err" ;;
    2) grep -q 'cannot be used\|own needs none\|found no memory' "$work/err" ;;
    75) grep -q 'lost\|cannot be used\|could not\|no GPU' "$work/err" ;;
    *) return 1 ;;
    esac
}

# Results without what tells own kernels and those of libraries apart. Bits do.
plain() { sed 's/"numbers": "[^"]*"/"numbers": ""/g; s/"notes": \[.*$/"notes": []}/' "$1" >"$1.plain"; }

# goes_on JOURNAL: the same command again, after what stands in $work/err.
goes_on() {
    if grep -q 'while it planned' "$work/err"; then
        run '' "$1" && grep -q -- '--kernels own' "$work/out" && plain "$work/out" &&
            "$tool" same "$work/own.plain" "$work/out.plain"
    else
        run '' "$1" && "$tool" same "$work/expected" "$work/out"
    fi
}

# fail_all MORE MOST FIRST STEP: fails call after call, until MOST runs on end come through: there is no such call
# any more, or none that matters. Some call must have mattered.
fail_all() {
    local more=$1 most=$2 call=${FIRST:-$3} step=${STEP:-$4} untouched=0 touched=0 wrong=0 lost=0 code journal
    while [ "$untouched" -lt "$most" ] && [ "$call" -le "${LAST:-5000}" ]; do
        journal=$work/j$call$more.db
        run "${cards:+,}fail=$call$more" "$journal"
        code=$?
        if ! judge "$code" "$journal"; then
            echo "call $call$more: exit $code: $(tail -n 3 "$work/err")"
            wrong=$((wrong + 1))
        fi
        if [ "$code" -eq 0 ]; then untouched=$((untouched + 1)); else untouched=0 touched=$((touched + 1)); fi
        if [ "$code" -eq 75 ]; then
            lost=$((lost + 1))
            if ! goes_on "$journal"; then
                echo "call $call$more: $(tail -n 1 "$work/err")"
                wrong=$((wrong + 1))
            fi
        fi
        rm -f "$journal"*
        call=$((call + step))
    done
    echo "Calls up to $call with '$more' and --kernels $kernels; $touched mattered, $lost lost the device."
    [ "$wrong" -eq 0 ] && { [ -n "${LAST:-}" ] || [ "$touched" -gt 0 ]; }
}

kernels=own run '' "$work/own.db" || bad "an undisturbed run with own kernels"
mv "$work/out" "$work/own"
plain "$work/own"
rm -f "$work"/own.db*
for kernels in $KERNELS; do
    run '' "$work/expected.db" || bad "an undisturbed run with $kernels kernels"
    mv "$work/out" "$work/expected"
    "$tool" choices "$work/expected.db" >"$work/choices"
    rm -f "$work"/expected.db*
    check "calls fail for good, $kernels kernels" fail_all ,sticky,status=719 2 1 2
    check "calls fail once, $kernels kernels" fail_all '' 30 2 2
    check "calls want memory, $kernels kernels" fail_all ,status=2 30 3 7
    device=cuda:0,1 cards=cards=2
    check "calls fail for good on two cards, $kernels kernels" fail_all ,sticky,status=719 2 1 4
    device=cuda cards=''
done
summary
