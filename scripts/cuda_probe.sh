#!/usr/bin/env bash
# Finds the CUDA toolkits of this machine and what each one can do, for the Makefile.
#   scripts/cuda_probe.sh list    one line for every nvcc that might be used: changes when something else was installed
#   scripts/cuda_probe.sh probe   make assignments for cuda/plugin.mk (variables CUDA_...), a toolkit a major version
#
# Nothing is concluded from a version number. nvcc itself is asked which architectures and flags it takes (a dry run
# compiles nothing), which host compiler it accepts (a kernel beside <vector> is compiled), where its headers and
# libraries lie (lines of the dry run, which holds for NVIDIA's, Debian's and PyPI's layout alike), and of which
# version it is (a macro). What can be said beforehand:
#   NVCC, CUDA_HOME, CUDA_PATH   looked at first;   CUDA_TOOLKITS   folders that hold toolkits, looked at too
#   HOSTCXX   the host compiler of nvcc             WANT   only these architectures: "75 90"
#   CUDNN     a folder with include/ and lib/ of cuDNN, when it lies beside no toolkit
set -uo pipefail

# Oldest first: the last one that is taken also gives the PTX for cards to come.
every='30 32 35 37 50 52 53 60 61 62 70 72 75 80 86 87 88 89 90 100 103 110 120 121'
hosts='g++-15 g++-14 g++-13 g++-12 g++-11 g++-10 g++-9 g++-8 g++-7 clang++ clang++-18 clang++-16 clang++-14'

candidates() {
    local folder
    printf '%s\n' ${NVCC:+"$NVCC"} ${CUDA_HOME:+"$CUDA_HOME/bin/nvcc"} ${CUDA_PATH:+"$CUDA_PATH/bin/nvcc"}
    for folder in ${CUDA_TOOLKITS:-}; do
        printf '%s\n' "$folder"/bin/nvcc "$folder"/*/bin/nvcc "$folder"/nvidia/cu*/bin/nvcc "$folder"/*/nvidia/cu*/bin/nvcc
    done
    type -aP nvcc
    printf '%s\n' /usr/local/cuda/bin/nvcc
    printf '%s\n' /usr/local/cuda-*/bin/nvcc /opt/cuda*/bin/nvcc | sort -Vr
    printf '%s\n' /usr/lib/nvidia-cuda-toolkit/bin/nvcc
    # pip puts them into a folder nvidia/ of Python's path.
    ${PYTHON:-python3} -c 'import sys, glob
for p in sys.path: print(*glob.glob((p or ".") + "/nvidia/cu*/bin/nvcc"), sep="\n")' 2>/dev/null
}
# The absolute paths of those that can be run, each once, whatever links lead to it.
found() {
    local path
    candidates | while read -r path; do
        case $path in
        '') continue ;;
        /*) ;;
        */*) path=$PWD/$path ;;
        *) path=$(command -v "$path") || continue ;;
        esac
        if [ -f "$path" ] && [ -x "$path" ]; then printf '%s\t%s\n' "$path" "$(readlink -f "$path")"; fi
    done | awk -F '\t' '!seen[$2]++ { print $1 }'
}

note() { notes+="${notes:+; }$*"; }
first_line() { grep -m 1 -v '^$' "$1" | tr -d '$#\\' | cut -c 1-200; }

# takes FLAGS...: whether nvcc understands them. Nothing is compiled.
takes() { "$nvcc" "${host[@]}" --dryrun "$@" -c "$work/empty.cu" -o "$work/empty.o" >/dev/null 2>&1; }

# The first host compiler with which a kernel and a header of C++'s library compile -> host.
choose_host() {
    local name flags=(-std=c++14 -Wno-deprecated-gpu-targets -c "$work/host.cu" -o "$work/host.o")
    for name in ${HOSTCXX:-default $hosts}; do
        host=()
        if [ "$name" != default ]; then
            command -v "$name" >/dev/null || continue
            host=(-ccbin "$name")
        fi
        if "$nvcc" "${host[@]}" "${flags[@]}" >"$work/log.$name" 2>&1; then return 0; fi
        [ -f "$work/log" ] || cp "$work/log.$name" "$work/log"
    done
    # Last of all the default compiler, although nvcc does not know this version of it.
    host=(-allow-unsupported-compiler)
    if [ -z "${HOSTCXX:-}" ] && "$nvcc" "${host[@]}" "${flags[@]}" >/dev/null 2>&1; then
        note "$nvcc does not know this version of g++ and was told not to mind; HOSTCXX=g++-11 (or another) chooses one that it knows"
        return 0
    fi
    return 1
}

# architectures -> archs, and the flags for them -> generate.
choose_architectures() {
    local arch
    archs='' generate=''
    for arch in $every; do
        case " ${WANT:-$arch} " in *" $arch "*) ;; *) continue ;; esac
        takes -gencode "arch=compute_$arch,code=sm_$arch" || continue
        archs+="${archs:+ }$arch"
        generate+=" -gencode arch=compute_$arch,code=sm_$arch"
    done
    [ -n "$archs" ] || return 1
    generate+=" -gencode arch=compute_${archs##* },code=compute_${archs##* }"
}

# folders NAME...: what nvcc's dry run says in its line NAME, as absolute folders that exist.
folders() {
    local folder
    "$nvcc" "${host[@]}" --dryrun -c "$work/empty.cu" -o "$work/empty.o" 2>&1 | sed -n "s/^#\\$ $1=//p" | tr '" ' '\n\n' |
        sed -n 's/^-[IL]//p' | while read -r folder; do (cd "$folder" 2>/dev/null && pwd); done
}

# holding PATTERN FOLDER...: those of the folders in which something fits the pattern, joined by colons.
holding() {
    local pattern=$1 folder list=''
    shift
    for folder; do
        folder=$(cd "$folder" 2>/dev/null && pwd) || continue
        # shellcheck disable=SC2086
        if compgen -G "$folder/$pattern" >/dev/null; then
            case ":$list:" in *":$folder:"*) ;; *) list+="${list:+:}$folder" ;; esac
        fi
    done
    printf '%s' "$list"
}

# find_header FILE NAME: flags to compare our declarations with NVIDIA's FILE of this toolkit are added to $headers;
# -DHAVE_NAME_H=0 where there is none that nvcc compiles. A folder that holds another CUDA's own headers as well would
# replace nvcc's, and the compiler's own folders, which it searches unasked and in its order, may hold any version's.
find_header() {
    local own folder flags
    own=$(grep -m 1 'define CUDART_VERSION' "$include/cuda_runtime_api.h")
    echo "#include <$1>" >"$work/header.cu"
    for folder in ${CUDNN:+"$CUDNN/include" "$CUDNN"} "$include" "$top/libraries/include" "$top"/../{cudnn,cublas}/include \
        /usr/local/include /usr/include; do
        [ -f "$folder/$1" ] || continue
        folder=$(cd "$folder" && pwd)
        if [ -f "$folder/cuda_runtime_api.h" ] && [ "$own" != "$(grep -m 1 'define CUDART_VERSION' "$folder/cuda_runtime_api.h")" ]; then
            note "$folder holds the headers of another CUDA as well and is not looked at"
            continue
        fi
        case "$folder:$headers " in
        /usr/include:* | /usr/local/include:* | *" $folder "*) flags=$headers ;;
        *) flags="$headers -isystem $folder" ;;
        esac
        # shellcheck disable=SC2086
        if "$nvcc" "${host[@]}" $flags -std=c++14 -Wno-deprecated-gpu-targets -c "$work/header.cu" -o "$work/header.o" >"$work/log.header" 2>&1; then
            headers="$flags -DHAVE_$2_H=1"
            return
        fi
        note "$nvcc does not compile $folder/$1 ($(first_line "$work/log.header")), so nothing is compared with it"
    done
    headers+=" -DHAVE_$2_H=0"
}

# One toolkit -> assignments, unless one of the same major version stood before it.
probe() {
    local nvcc=$1 host=() archs generate include top major version runtime libraries headers warnings depend places
    case $nvcc in *[[:space:]\$\#:\']*) note "$nvcc: its path has a character that make cannot stand" && return ;; esac
    rm -f "$work"/log*
    if ! "$nvcc" --version >/dev/null 2>&1; then note "$nvcc does not run" && return; fi
    if ! choose_host; then note "$nvcc takes no host compiler of this machine ($(first_line "$work/log")); HOSTCXX= names another" && return; fi
    "$nvcc" "${host[@]}" -E "$work/version.cu" >"$work/version" 2>/dev/null
    read -r _ major version < <(grep '^foldmill ' "$work/version") || { note "$nvcc does not tell its version" && return; }
    version=${version//[[:space:]]/}
    case " $majors " in *" $major "*) return ;; esac
    if ! choose_architectures; then note "$nvcc makes code for none of ${WANT:-$every}" && return; fi
    top=$(cd "$(dirname "$(readlink -f "$nvcc")")/.." && pwd)
    mapfile -t places < <(folders INCLUDES; printf '%s\n' "$top/include" /usr/include)
    include=$(holding cuda_runtime_api.h "${places[@]}")
    include=${include%%:*}
    if [ -z "$include" ]; then note "$nvcc has no cuda_runtime_api.h" && return; fi
    mapfile -t places < <(folders LIBRARIES; printf '%s\n' "$top/lib64" "$top/lib" /usr/lib/x86_64-linux-gnu)
    runtime=$(holding libcudart_static.a "${places[@]}")
    runtime=${runtime%%:*}
    if [ -z "$runtime" ]; then note "$nvcc has no libcudart_static.a" && return; fi
    mapfile -t places < <(printf '%s\n' ${CUDNN:+"$CUDNN/lib" "$CUDNN/lib64" "$CUDNN"} "$top/lib64" "$top/lib" \
        "$top"/../cudnn/lib "$top"/../cublas/lib "$runtime")
    libraries=$(holding 'lib@(cudnn|cublas).so.*' "${places[@]}")
    headers=''
    find_header cudnn.h CUDNN
    find_header cublas_v2.h CUBLAS
    warnings=''
    if takes -Werror all-warnings; then warnings='-Werror all-warnings'; fi
    depend=''
    if takes -MMD -MP -MF "$work/d"; then depend='-MMD -MP -MF'; fi
    majors+="${majors:+ }$major"
    cat <<P
CUDA_${major}_NVCC := $nvcc ${host[*]}
CUDA_${major}_VERSION := $major.$version
CUDA_${major}_ARCHS := $archs
CUDA_${major}_GENERATE :=$generate
CUDA_${major}_INCLUDE := -isystem $include
CUDA_${major}_HEADERS :=$headers
CUDA_${major}_RUNTIME := $runtime/libcudart_static.a
CUDA_${major}_LIBDIRS := $libraries
CUDA_${major}_WARNINGS := $warnings
CUDA_${major}_DEPEND := $depend
P
}

shopt -s extglob nullglob
case ${1:-} in
list)
    # The time of a change is part of the line: a toolkit may be replaced in place.
    found | while read -r path; do echo "$path $(stat -L -c %Y "$path")"; done
    exit
    ;;
probe) ;;
*)
    echo "usage: scripts/cuda_probe.sh list | probe" >&2
    exit 2
    ;;
esac

work=$(mktemp -d "${TMPDIR:-/tmp}/foldmill-cuda.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
echo '__global__ void nothing(float *x) { x[threadIdx.x] = 1; }' >"$work/empty.cu"
printf '%s\n' 'foldmill __CUDACC_VER_MAJOR__ __CUDACC_VER_MINOR__' >"$work/version.cu"
cat >"$work/host.cu" <<'C'
#include <vector>
#include <cuda_runtime.h>
static __global__ void kernel(float *x) { x[threadIdx.x] = 1; }
int main() { std::vector<float> list(3); kernel<<<1, 1>>>(0); return (int)list.size() - 3; }
C
majors='' notes=''
while read -r path; do probe "$path"; done < <(found)
# shellcheck disable=SC2086
echo "CUDA_MAJORS := $(printf '%s\n' $majors | sort -rn | tr '\n' ' ')"
if [ -z "$majors" ] && [ -z "$notes" ]; then
    notes="no nvcc was found (NVCC, CUDA_HOME, CUDA_TOOLKITS, PATH, /usr/local/cuda, /opt/cuda, Python's packages); README, 'GPUs', tells what to install"
fi
echo "CUDA_NOTES := $notes"
