#!/usr/bin/env bash
# scripts/cuda_config.sh build/cuda.mk: tells what scripts/cuda_probe.sh found, for `make config`.
set -euo pipefail
value() { sed -n "s/^CUDA_$1 :=[[:space:]]*//p" "$file"; }
file=$1
for major in $(value MAJORS); do
    host=$(value "${major}_NVCC")
    echo "  ✓ CUDA $(value "${major}_VERSION"): $host"
    echo "      architectures: $(value "${major}_ARCHS"), and PTX for newer cards"
    libraries=$(value "${major}_LIBDIRS")
    echo "      cuDNN and cuBLAS are looked for in FOLDMILL_LIBDIRS_$major, FOLDMILL_LIBDIRS, ${libraries:+$libraries, }then on the loader's path"
done
if [ -z "$(value MAJORS)" ]; then echo "  ✗ no CUDA toolkit, so no plug-in: the CPU backend works without"; fi
if [ -n "$(value NOTES)" ]; then echo "      $(value NOTES)"; fi
