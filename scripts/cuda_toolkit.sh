#!/usr/bin/env bash
# Fetches a CUDA toolkit into a folder without installing it, for checks that have to compile with several.
#   scripts/cuda_toolkit.sh 13 FOLDER [headers]   nvcc 13.0 from PyPI
#   scripts/cuda_toolkit.sh 12 FOLDER [headers]   nvcc 12.4, Debian 13's (non-free), headers and cudart from PyPI
#   scripts/cuda_toolkit.sh 11 FOLDER [headers]   nvcc 11.8, Debian 12's (non-free)
#   scripts/cuda_toolkit.sh clang11 FOLDER        what clang-14 needs beside it for CUDA 11.8, without any nvcc (sm_30)
# `headers` adds those of the cuDNN and cuBLAS that belong to it (the libraries come along and are thrown away: up to
# 1.2 GB are loaded). A folder that is complete already is left alone. All sources and versions are pinned.
set -euo pipefail

what=${1:?which one: 13, 12, 11, clang11}
mkdir -p "${2:?the folder}"
folder=$(cd "$2" && pwd)
headers=${3:-}
python=${PYTHON:-python3}

# with_pip COMMAND... NAME==VERSION...
with_pip() {
    if ! "$python" -m pip --version >/dev/null 2>&1; then
        echo "python3-pip is missing: 'scripts/setup.sh slow' installs it." >&2
        exit 1
    fi
    "$python" -m pip "$@" >&2 || {
        echo "PyPI does not give what 'pip $*' asks for here. Is the network there?" >&2
        exit 1
    }
}
wheels() { # FOLDER NAME==VERSION...
    local into=$1
    shift
    with_pip install -q --disable-pip-version-check --root-user-action=ignore --no-warn-conflicts --no-deps --upgrade \
        --target "$into" "$@"
}

# The packages of one suite of Debian, taken apart under $folder/apt/root: the machine's own mirror and keys, lists and
# caches apart from the machine's.
packages() { # SUITE NAME...
    local suite=$1 apt=$folder/apt mirror options file
    shift
    rm -rf "$apt"
    mkdir -p "$apt/parts" "$apt/lists/partial" "$apt/cache/archives/partial"
    mirror=$(cat /etc/apt/sources.list.d/*.sources 2>/dev/null | sed -n 's/^URIs:[[:space:]]*//p' | tr ' ' '\n' | grep '/debian/*$' | head -n 1) || true
    if [ -z "$mirror" ]; then
        mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n 's/^deb[[:space:]].*\(https\{0,1\}:[^[:space:]]*\/debian\)\/\{0,1\}[[:space:]].*/\1/p' | head -n 1) || true
    fi
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: non-free\nSigned-By: %s\n' "${mirror:-http://deb.debian.org/debian}" \
        "$suite" /usr/share/keyrings/debian-archive-keyring.gpg >"$apt/parts/one.sources"
    options=(-qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$apt/parts" -o "Dir::State::lists=$apt/lists"
        -o "Dir::Cache=$apt/cache" -o Dir::State::status=/dev/null -o APT::Sandbox::User=root)
    if ! apt-get "${options[@]}" update >&2 || ! (cd "$apt" && apt-get "${options[@]}" download "$@" >&2); then
        echo "Debian's mirror ${mirror:-deb.debian.org} does not give $* of $suite here. Is the network there?" >&2
        exit 1
    fi
    mkdir -p "$apt/root"
    for file in "$apt"/*.deb; do
        case $file in
        # 2.5 GB of libraries, of which the first few are wanted: tar stops after those, which dpkg then complains of.
        */nvidia-cuda-dev_*)
            { dpkg --fsys-tarfile "$file" 2>/dev/null || true; } | tar -x -C "$apt/root" --occurrence=1 ./usr/include \
                ./usr/lib/x86_64-linux-gnu/libcudadevrt.a ./usr/lib/x86_64-linux-gnu/libcudart_static.a
            ;;
        *) dpkg -x "$file" "$apt/root" ;;
        esac
    done
}

# Debian's nvcc, put together as NVIDIA does, so that it can lie anywhere.
relocate() {
    local root=$folder/apt/root library tool
    library=$root/usr/lib/nvidia-cuda-toolkit
    mkdir -p "$folder/bin" "$folder/nvvm/bin" "$folder/include" "$folder/lib64"
    for tool in ptxas fatbinary nvlink cudafe++ bin2c cuobjdump nvdisasm; do cp -L "$root/usr/bin/$tool" "$folder/bin/"; done
    cp -L "$library/bin/nvcc" "$folder/bin/nvcc"
    cp -rL "$library/bin/crt" "$folder/bin/"
    cp -L "$library/bin/cicc" "$folder/nvvm/bin/"
    cp -rL "$library/libdevice" "$folder/nvvm/"
    cat >"$folder/bin/nvcc.profile" <<'P'
TOP              = $(_HERE_)/..
CICC_PATH        = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
LD_LIBRARY_PATH += $(TOP)/lib64:
PATH            += $(CICC_PATH):$(_HERE_):
INCLUDES        +=  "-I$(TOP)/include" $(_SPACE_)
LIBRARIES        =+ $(_SPACE_) "-L$(TOP)/lib64/stubs" "-L$(TOP)/lib64"
CUDAFE_FLAGS    +=
PTXAS_FLAGS     +=
P
}

# A wheel is a zip file: the libraries in it are not even unpacked.
only_headers() { # NAME==VERSION...
    if [ -z "$headers" ] || [ -f "$libraries/include/cudnn.h" ]; then return 0; fi
    local loaded=$folder/wheels.libraries
    rm -rf "$loaded"
    with_pip download -q --disable-pip-version-check --no-deps -d "$loaded" "$@"
    "$python" - "$loaded" <<'P'
import glob, sys, zipfile
for wheel in glob.glob(sys.argv[1] + "/*.whl"):
    with zipfile.ZipFile(wheel) as file:
        file.extractall(sys.argv[1], [name for name in file.namelist() if name.startswith("nvidia/") and "/include/" in name])
P
    mkdir -p "$libraries/include"
    local part
    for part in "$loaded"/nvidia/*/include; do cp -r "$part/." "$libraries/include/"; done
    rm -rf "$loaded"
}

done_mark=$folder/.complete
# Beside bin/, where scripts/cuda_probe.sh looks for them.
libraries=$folder/libraries
if [ "$what" = 13 ]; then libraries=$folder/wheels/nvidia/cu13/libraries; fi
case $what in
13)
    if [ ! -f "$done_mark" ]; then
        wheels "$folder/wheels" nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96
        chmod +x "$folder"/wheels/nvidia/cu13/bin/* "$folder"/wheels/nvidia/cu13/nvvm/bin/*
        ln -sfn wheels/nvidia/cu13/bin "$folder/bin"
    fi
    only_headers nvidia-cublas==13.1.0.3 nvidia-cudnn-cu13==9.19.0.56
    ;;
12)
    if [ ! -f "$done_mark" ]; then
        packages trixie nvidia-cuda-toolkit
        relocate
        wheels "$folder/wheels" nvidia-cuda-nvcc-cu12==12.4.131 nvidia-cuda-runtime-cu12==12.4.127
        for part in cuda_nvcc cuda_runtime; do cp -r "$folder/wheels/nvidia/$part/include/." "$folder/include/"; done
        # Only the last wheels of CUDA 12 hold the static library; it serves what any CUDA 12 compiled.
        wheels "$folder/wheels.static" nvidia-cuda-runtime-cu12==12.9.79
        cp "$folder"/wheels.static/nvidia/cuda_runtime/lib/libcud*.a "$folder/lib64/"
        rm -rf "$folder/wheels.static"
        rm -rf "$folder/wheels" "$folder/apt"
    fi
    only_headers nvidia-cublas-cu12==12.4.5.8 nvidia-cudnn-cu12==9.10.2.21
    ;;
11)
    # The wheel of this version has no static cudart, so the large -dev package is taken apart once.
    if [ ! -f "$done_mark" ]; then
        packages bookworm nvidia-cuda-toolkit nvidia-cuda-dev
        relocate
        cp -r "$folder"/apt/root/usr/include/. "$folder/include/"
        cp "$folder"/apt/root/usr/lib/x86_64-linux-gnu/libcuda{rt_static,devrt}.a "$folder/lib64/"
        rm -rf "$folder/apt"
    fi
    only_headers nvidia-cublas-cu11==11.11.3.6 nvidia-cudnn-cu11==8.7.0.84
    ;;
clang11)
    if [ ! -f "$done_mark" ]; then
        wheels "$folder/wheels" nvidia-cuda-nvcc-cu11==11.8.89 nvidia-cuda-runtime-cu11==11.8.89
        mkdir -p "$folder/bin" "$folder/include" "$folder/lib64" # clang wants lib64, empty as it is
        cp "$folder/wheels/nvidia/cuda_nvcc/bin/ptxas" "$folder/bin/"
        chmod +x "$folder/bin/ptxas"
        cp -r "$folder/wheels/nvidia/cuda_nvcc/nvvm" "$folder/"
        for part in cuda_runtime cuda_nvcc; do cp -r "$folder/wheels/nvidia/$part/include/." "$folder/include/"; done
        rm -rf "$folder/wheels"
    fi
    ;;
*)
    echo "scripts/cuda_toolkit.sh knows 13, 12, 11 and clang11, not '$what'" >&2
    exit 2
    ;;
esac
touch "$done_mark"
