# For the slow scripts that compile with fetched CUDA toolkits, which stay in build/toolkits; sourced after common.bash.
# shellcheck shell=bash disable=SC2154

if [ "$(uname -m)" != x86_64 ]; then
    echo "SKIPPED: the toolkits are fetched for x86-64 only."
    summary
fi

# fetch WHAT TOOLKIT [HEADERS]: whether it is there then (scripts/cuda_toolkit.sh). Where PyPI cannot be reached at all
# nothing is wrong with us.
fetch() {
    local what=$1 toolkit=$2 headers=${3:-} try
    for try in 1 2; do
        # shellcheck disable=SC2086
        if scripts/cuda_toolkit.sh "$toolkit" "build/toolkits/$toolkit" $headers; then
            ok "$what"
            return
        fi
        echo "(that was try $try)"
    done
    if python3 -m pip download -q --no-deps -d "$work/reach" six >/dev/null 2>&1; then
        bad "$what"
    else
        echo "SKIPPED: no way to PyPI from here, so there is no CUDA $toolkit to try"
    fi
    return 1
}
