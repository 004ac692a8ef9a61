#!/usr/bin/env bash
# scripts/cuda_needed.sh PLUG-IN: fails unless the plug-in can be loaded on a machine without a driver, cuBLAS and
# cuDNN, and shows fm_plugin and nothing else.
set -euo pipefail
needed=$(readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
if grep -E '^lib(cuda|cudart|cublas|cublasLt|cudnn|nv|stdc\+\+)[^/]*\.so' <<<"$needed" >&2; then
    echo "$1 must not need the libraries above to be loaded" >&2
    exit 1
fi
shown=$(nm -D --defined-only "$1" | awk '{ print $NF }')
if [ "$shown" != fm_plugin ]; then
    echo "$1 must show fm_plugin and nothing else, and it shows: ${shown:-nothing}" >&2
    exit 1
fi
