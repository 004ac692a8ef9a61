#!/usr/bin/env bash
# The program is killed, stopped, starved of disk and given changed data; the same command again ends with the
# results of an undisturbed run, bit for bit.
# shellcheck source=tests/slow/common.bash
. "$(dirname "$0")/common.bash"

sweep=$work/secondary_structure.yaml
cp folds/secondary_structure.yaml folds/cb513_part.csv "$work"
# Dropout and both kinds of kept state, so that a checkpoint has everything in it; long enough to be stopped on its way.
settings=(--set train.epochs=40 --set 'train.early_stopping={monitor: val_loss, patience: 30, restore_best_weights: true}')
run() { "$foldmill" run "$sweep" "${settings[@]}" --quiet --json "$@"; }

# A random number below $1, the same sequence each time.
RANDOM=513
below() { awk -v r="$RANDOM" -v n="$1" 'BEGIN { printf "%.3f", r / 32768 * n }'; }

same() { "$tool" same "$work/expected.json" "$1"; }

undisturbed() {
    "$tool" measure "$work/used" "$foldmill" run "$sweep" "${settings[@]}" --quiet --json --lanes 2 \
        --journal "$work/expected.db" >"$work/expected.json"
    local code=$?
    read -r wall _ _ <"$work/used"
    echo "An undisturbed run takes $wall s."
    [ "$code" -eq 0 ] && [ "$("$tool" get "$work/expected.json" finished)" = true ]
}

# start ARGUMENTS...: runs in the background; its number is in $pid, its output in $work/out and $work/err.
start() {
    # Not through `run`: the number must be the program's, not a shell's.
    "$foldmill" run "$sweep" "${settings[@]}" --quiet --json "$@" >"$work/out" 2>"$work/err" &
    pid=$!
    background+=("$pid")
}

# to_the_end JOURNAL: resumes until it is done; the results are in $work/out.
to_the_end() {
    local round code
    for round in 1 2 3; do
        run --journal "$1" --lanes "$round" >"$work/out" 2>"$work/err"
        code=$?
        if [ "$code" -eq 0 ]; then return 0; fi
    done
    echo "exit $code: $(tail -n 1 "$work/err")"
    return 1
}

# Kills with SIGKILL at instants spread over a story until the sweep is done; most stories last several lives.
kills=0 unfinished=0
story() {
    local journal=$work/story$1.db reach=$2 lives=0 code
    while [ "$lives" -lt 6 ]; do
        start --journal "$journal" --lanes $((lives % 3 + 1))
        "$tool" nap "$(below "$reach")"
        kill -9 "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
        code=$?
        lives=$((lives + 1))
        if [ "$code" -eq 0 ]; then break; fi
        kills=$((kills + 1))
    done
    if [ "$code" -ne 0 ]; then
        unfinished=$((unfinished + 1))
        to_the_end "$journal" || return 1
    fi
    same "$work/out" || return 1
    # What was kept is the same too: the predictions, and the weights byte for byte.
    "$foldmill" export "$sweep" "${settings[@]}" --predictions --journal "$journal" >"$work/predictions" &&
        cmp "$work/expected.csv" "$work/predictions" || return 1
    rm -rf "$work/weights"
    "$foldmill" export "$sweep" --weights "$work/weights" --quiet --journal "$journal" &&
        diff -r "$work/expected" "$work/weights" && rm -f "$journal"*
}

kill_stories() {
    local number
    "$foldmill" export "$sweep" "${settings[@]}" --predictions --journal "$work/expected.db" \
        >"$work/expected.csv" || return 1
    "$foldmill" export "$sweep" --weights "$work/expected" --quiet --journal "$work/expected.db" || return 1
    for number in 1 2 3 4; do
        # Set-up; training; up to the end.
        story "$number.a" 0.06 || return 1
        story "$number.b" "$(awk -v w="$wall" 'BEGIN { print w * 0.7 }')" || return 1
        story "$number.c" "$(awk -v w="$wall" 'BEGIN { print w * 1.3 }')" || return 1
    done
    while [ "$kills" -lt 20 ]; do story "more$kills" "$wall" || return 1; done
    echo "$kills kills in stories of up to 6 lives; $unfinished were led to the end afterwards"
}

# The share of runs that are over, by the journal, read while the program writes.
done_part() {
    "$foldmill" show "$sweep" --json --journal "$1" 2>/dev/null |
        grep -o '"status": "[a-z]*", "numbers"' |
        awk '{ n++; done += /completed/ } END { print n ? done / n : 0 }'
}

# The last commits: a sweep whose last run is under way is killed later and later, until it gets to its end.
kill_at_the_end() {
    local journal=$work/end.db number code
    for number in 0 1 2 3 4 5; do
        rm -f "$journal"*
        start --journal "$journal" --lanes 1
        while kill -0 "$pid" 2>/dev/null && less "$(done_part "$journal")" 0.8; do "$tool" nap 0.01; done
        "$tool" nap "$(awk -v n="$number" -v w="$wall" 'BEGIN { print n / 5 * w / 3 }')"
        kill -9 "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
        to_the_end "$journal" && same "$work/out" || return 1
    done
    rm -f "$journal"*
}

# signalled JOURNAL SHARE SIGNAL CODE [twice]: stopped when that share of the runs is over, by one signal or two.
signalled() {
    local journal=$1 share=$2 signal=$3 want=$4 twice=${5:-} code
    start --journal "$journal" --lanes 2
    while kill -0 "$pid" 2>/dev/null && less "$(done_part "$journal")" "$share"; do "$tool" nap 0.01; done
    kill -s "$signal" "$pid"
    if [ -n "$twice" ]; then kill -s "$signal" "$pid" 2>/dev/null; fi
    wait "$pid"
    code=$?
    if [ "$code" -ne "$want" ]; then
        echo "exit $code instead of $want: $(tail -n 1 "$work/err")"
        return 1
    fi
}
stops() {
    local journal=$work/stops.db
    signalled "$journal" 0.1 TERM 75 && signalled "$journal" 0.4 INT 130 || return 1
    to_the_end "$journal" && same "$work/out" || return 1
    rm -f "$journal"*
    signalled "$journal" 0.1 INT 130 twice && to_the_end "$journal" && same "$work/out" || return 1
    rm -f "$journal"*
    signalled "$journal" 0.1 TERM 75 twice && to_the_end "$journal" && same "$work/out"
}

two_at_once() {
    local journal=$work/two.db code
    start --journal "$journal" --lanes 1
    local first=$pid
    until [ -s "$journal.lock" ]; do "$tool" nap 0.01; done
    run --journal "$journal" --lanes 1 >"$work/second" 2>"$work/second.err"
    code=$?
    wait "$first"
    local first_code=$?
    echo "second: exit $code, $(tail -n 1 "$work/second.err")"
    [ "$code" -eq 75 ] && grep -q "process $first" "$work/second.err" && [ "$first_code" -eq 0 ] && same "$work/out"
}

# full SPARE: a disk of 4 MB with SPARE kB left of it.
full() {
    local disk=$work/disk journal=$work/disk/j.db code spare
    rm -f "$disk"/*
    dd if=/dev/zero of="$disk/ballast" bs=1k count=$((4096 - $1)) 2>/dev/null
    run --journal "$journal" --lanes 2 >"$work/out" 2>"$work/err"
    code=$?
    if [ "$code" -ne 1 ] || ! grep -q "disk is full" "$work/err"; then
        echo "$1 kB left: exit $code, $(tail -n 1 "$work/err")"
        return 1
    fi
    rm "$disk/ballast"
    to_the_end "$journal" && same "$work/out"
}
disks() {
    local spare
    for spare in 4 40 120 200 320; do full "$spare" || return 1; done
}

# Root may write everywhere, so somebody else tries.
read_only() {
    local folder=$work/locked code
    mkdir "$folder"
    cp "$work/secondary_structure.yaml" "$work/cb513_part.csv" "$folder"
    chmod 555 "$folder"
    chmod 755 "$work"
    local as=()
    if [ "$(id -u)" -eq 0 ]; then as=(setpriv --reuid 65534 --regid 65534 --clear-groups); fi
    cp "$foldmill" "$work/foldmill"
    "${as[@]}" "$work/foldmill" run "$folder/secondary_structure.yaml" --quiet >"$work/out" 2>"$work/err"
    code=$?
    cat "$work/err"
    [ "$code" -eq 1 ] && grep -q "ermission" "$work/err"
}

# The data are changed behind the stamps' back: a finished sweep answers without reading them.
finished() {
    local data=$work/cb513_part.csv journal=$work/expected.db used
    cp -p "$data" "$work/sound.csv"
    cp "$data" "$work/kept.csv"
    touch -r "$data" "$work/kept.csv"
    printf X | dd of="$data" bs=1 seek=2000 conv=notrunc 2>/dev/null
    touch -r "$work/sound.csv" "$data"
    "$tool" measure "$work/used" "$foldmill" run "$sweep" "${settings[@]}" --quiet --json --journal "$journal" \
        >"$work/out" 2>"$work/err" && same "$work/out" || return 1
    read -r _ used _ <"$work/used"
    echo "A finished sweep answers in $used s of processor time."
    less "$used" 0.1
}
changed() {
    local data=$work/cb513_part.csv journal=$work/expected.db code
    touch "$data"
    run --journal "$journal" >"$work/out" 2>"$work/err"
    code=$?
    tail -n 1 "$work/err"
    [ "$code" -eq 2 ] && grep -q "data are not the same" "$work/err"
}
touched() {
    local data=$work/cb513_part.csv
    # In place, so that the inode stays, too.
    cat "$work/sound.csv" >"$data"
    touch "$data"
    run --journal "$work/expected.db" >"$work/out" 2>"$work/err" && same "$work/out"
}
fresh() {
    run --journal "$work/expected.db" --fresh --lanes 2 >"$work/out" 2>"$work/err" && same "$work/out" &&
        [ -f "$work/expected.old-1.db" ] &&
        "$foldmill" show "$sweep" --json --journal "$work/expected.old-1.db" >"$work/old" &&
        same "$work/old"
}

check "an undisturbed run ends" undisturbed
if [ "$failed" -gt 0 ]; then summary; fi
check "kill -9 at random instants changes nothing" kill_stories
check "kill -9 close to the end changes nothing" kill_at_the_end
check "SIGTERM ends with 75, SIGINT with 130, twice at once; the rest comes later" stops
check "a second process is sent away with 75" two_at_once
mkdir "$work/disk"
if mount -t tmpfs -o size=4m tmpfs "$work/disk" 2>/dev/null; then
    check "a full disk is said, and nothing is lost" disks
    umount -l "$work/disk"
else
    echo "SKIPPED: a full disk (only root can make a small one)"
fi
if [ "$(id -u)" -ne 0 ] || command -v setpriv >/dev/null; then
    check "a folder that cannot be written is said with 1" read_only
else
    echo "SKIPPED: a folder that cannot be written (setpriv is missing)"
fi
check "a finished sweep answers without reading the data" finished
check "changed data are refused with 2" changed
check "touched data are read again and found the same" touched
check "--fresh begins anew and keeps the old journal" fresh
summary
