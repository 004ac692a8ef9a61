# What the slow scripts share; they source it from the repository's root. Sets `foldmill` and `tool` to programs
# and `work` to a folder that goes away at the end.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

passed=0 failed=0
foldmill=${FOLDMILL:-$PWD/build/foldmill}
tool=$PWD/build/slow/tool
work=$(mktemp -d "${TMPDIR:-/tmp}/foldmill-slow.XXXXXX") || exit 1
background=()

finish() {
    local pid
    for pid in ${background[@]+"${background[@]}"}; do kill -9 "$pid" 2>/dev/null; done
    if mountpoint -q "$work/disk" 2>/dev/null; then umount -l "$work/disk"; fi
    chmod -R u+w "$work" 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT

ok() {
    passed=$((passed + 1))
    echo "passed: $*"
}
bad() {
    failed=$((failed + 1))
    echo "FAILED: $*"
}
# check WHAT COMMAND...: passes when the command succeeds.
check() {
    local what=$1
    shift
    if "$@"; then ok "$what"; else bad "$what"; fi
}
summary() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}
declare -A begun
# begin NAME COMMAND...: in the background, what it says in $work/NAME.
begin() {
    local name=$1
    shift
    "$@" >"$work/$name" 2>&1 &
    background+=($!)
    begun[$name]=$!
}
# ended NAME [LINES]: waits for it, shows the last lines of what it said (all), gives its status.
ended() {
    wait "${begun[$1]}"
    local code=$?
    tail -n "${2:-+1}" "$work/$1"
    return "$code"
}
# less A B: whether A < B, as decimal numbers.
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }

if [ ! -x "$foldmill" ]; then
    echo "There is no $foldmill: run make first."
    bad "the program is there"
    summary
fi
if [ ! -x "$tool" ] || [ tests/slow/tool.c -nt "$tool" ]; then
    mkdir -p build/slow
    # shellcheck disable=SC2046
    if ! ${CC:-gcc} -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -o "$tool" tests/slow/tool.c \
        $(pkg-config --cflags --libs jansson sqlite3); then
        bad "tests/slow/tool.c builds"
        summary
    fi
fi
