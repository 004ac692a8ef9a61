#!/usr/bin/env bash
# The CPU engine on another processor: its routines, whole random programs against the reference executor and
# what they need are compiled for aarch64 and run under qemu-user. Criterion and the libraries of the loaders are
# not to be had for it, so tests/aarch64 stands in for the one and reads the networks' YAML.
# shellcheck source=tests/slow/common.bash
. "$(dirname "$0")/common.bash"

cross=${CROSS:-aarch64-linux-gnu-gcc}
qemu=${QEMU:-qemu-aarch64}
folder=build/aarch64
if ! command -v "$cross" >/dev/null || ! command -v "$qemu" >/dev/null; then
    echo "SKIPPED: $cross or $qemu is missing (make setup does not bring them, make slow does)."
    summary
fi

# Headers of libraries that are included and never called.
rm -rf "$folder"
mkdir -p "$folder/include" "$folder/obj"
for header in jansson.h jansson_config.h libfyaml.h libfyaml; do
    for place in /usr/include "/usr/include/$(gcc -dumpmachine)"; do
        if [ -e "$place/$header" ]; then ln -sf "$place/$header" "$folder/include/$header"; fi
    done
done

sources=(src/base/*.c src/net/*.c src/engine/*.c src/engine/host/*.c src/engine/reference/*.c src/engine/cpu/*.c src/engine/cpu/isa/*.c)
for file in src/config/*.c; do
    case $file in */yaml*.c | */quoted.c) ;; *) sources+=("$file") ;; esac
done
sources+=(src/data/*.c tests/support/{bench,random_net,inside,guarded,tolerance,allocation}.c)
sources+=(tests/engine/test_cpu_*.c tests/aarch64/*.c)

compile() {
    local file=$1 level=-O1
    case $file in src/engine/cpu/*) level=-O2 ;; esac
    "$cross" -std=c11 -D_GNU_SOURCE -Wno-psabi -Werror=implicit-function-declaration \
        -DFM_VERSION='"test"' -DFM_ISA=portable $level \
        -ffp-contract=off -fno-math-errno \
        -ffunction-sections -fdata-sections -Isrc -Iinclude -Itests -Itests/aarch64 -I"$folder/include" \
        -c "$file" -o "$folder/obj/${file//\//_}.o"
}
export -f compile
export cross folder
built() {
    printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -I{} bash -c 'compile {}' &&
        "$cross" -static -Wl,--gc-sections -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=pthread_mutex_lock \
            -o "$folder/tests" "$folder"/obj/*.o -lm -lpthread
}
check "the CPU engine and its tests compile for aarch64" built
check "they pass under $qemu" timeout 600 "$qemu" "$folder/tests"
summary
