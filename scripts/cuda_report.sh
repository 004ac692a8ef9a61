#!/usr/bin/env bash
# scripts/cuda_report.sh build/cuda.mk: what every kernel needs on every architecture, as ptxas tells it: registers,
# shared memory, stack and spills -> build/cuda-report.txt. Called by `make cuda-report`; WANT="75 90" limits the
# architectures. A kernel that spills is marked and counted: it is slower than it need be, not wrong.
set -euo pipefail
value() { sed -n "s/^CUDA_$1 :=[[:space:]]*//p" "$file"; }
file=$1
out=build/cuda-report.txt
majors=$(value MAJORS)
if [ -z "$majors" ]; then
    echo "No report without a CUDA toolkit: $(value NOTES)" >&2
    exit 1
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/foldmill-report.XXXXXX")
trap 'rm -rf "$work"' EXIT

one() { # MAJOR FILE.cu
    local log=$work/$1-${2//\//_}.log
    # shellcheck disable=SC2046
    if ! $(value "$1_NVCC") -std=c++14 -O3 $(value "$1_GENERATE") -Wno-deprecated-gpu-targets -fmad=false \
        -Xcompiler -fno-exceptions -Isrc -Iinclude -Icuda -Xptxas -v -c "$2" -o "$log.o" >"$log" 2>&1; then
        grep -v '^ptxas info' "$log" >&2
        return 1
    fi
    rm -f "$log.o"
    sed "s|^|$1 $2 |" "$log"
}
export -f one value
export work file

# Lines of a log: "Compiling entry function 'NAME' for 'sm_75'", then "N bytes stack frame, N bytes spill stores, N
# bytes spill loads", then "Used N registers, ..., N bytes smem, ...".
for major in $majors; do
    for source in cuda/kernels/*.cu; do printf '%s %s\n' "$major" "$source"; done
done | xargs -P "$(nproc)" -L 1 bash -c 'one "$0" "$1"' | awk '
    /Compiling entry function/ { split($0, part, "\047"); kernel = part[2]; arch = part[4]; stack = spills = 0; next }
    /bytes stack frame/ {
        for (i = 1; i <= NF; i++) {
            if ($i == "stack") stack = $(i - 2)
            if ($i == "spill") spills += $(i - 2)
        }
        next
    }
    / Used [0-9]+ registers/ && kernel != "" {
        shared = 0
        for (i = 1; i <= NF; i++) {
            if ($i == "registers," || $i == "registers") registers = $(i - 1)
            if ($i ~ /^smem/) shared = $(i - 2)
        }
        print $1, arch, registers, shared, stack, spills, $2, kernel
        kernel = ""
    }' | sort -k7,7 -k8,8 -k1,1nr -k2,2V >"$work/lines"

{
    echo "Registers, bytes of static shared memory, of stack and of spills (!) of each kernel, by toolkit and architecture."
    echo "(Shared memory that a launch asks for depends on the shape and is not in it: at most 48 KB.)"
    echo
    printf '%-5s %-7s %9s %7s %6s %7s  %s\n' CUDA arch registers shared stack spills kernel
    c++filt <"$work/lines" | sed 's/(anonymous namespace):://g' | awk '
        {
            kernel = $0
            for (i = 1; i <= 7; i++) sub(/^[^ ]+ /, "", kernel)
            sub(/\(.*$/, "", kernel); sub(/^void /, "", kernel)
            name = $7; sub(/.*\//, "", name)
            printf "%-5s %-7s %9d %7d %6d %6d%s  %s: %s\n", $1, $2, $3, $4, $5, $6, ($6 > 0 ? "!" : " "), name, kernel
            count++; if ($6 > 0) bad++; if ($3 > most) most = $3
        }
        END { printf "\n%d compiled kernels, at most %d registers, %d of them spill\n", count, most, bad }'
} >"$out"
tail -n 1 "$out"
echo "The table is in $out."
