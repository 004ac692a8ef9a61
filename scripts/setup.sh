#!/usr/bin/env bash
# Installs the Debian packages that Foldmill needs and this machine lacks. Silent when nothing is missing.
#   scripts/setup.sh        what building and `make check` need
#   scripts/setup.sh slow   also what the slow checks need
#   scripts/setup.sh show   only tells what is there
set -euo pipefail

packages=(gcc libc6-dev make pkg-config libfyaml-dev libjansson-dev libzip-dev libsqlite3-dev libcsv-dev
    libcriterion-dev scdoc g++)
slow=(clang libclang-rt-14-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user python3-pip)
mode=${1:-}
case $mode in
slow | show) packages+=("${slow[@]}") ;;
esac

if ! command -v dpkg-query >/dev/null; then
    # Not Debian: look for the libraries themselves, and leave installing to the user.
    if command -v pkg-config >/dev/null && pkg-config --exists libfyaml jansson libzip sqlite3 criterion; then exit 0; fi
    echo "This is no Debian system. Install by hand: a C compiler, make, pkg-config and the development files of" >&2
    echo "libfyaml, jansson, libzip, SQLite 3, libcsv and Criterion 2.4 (Debian's names: ${packages[*]})." >&2
    exit 1
fi

# dpkg-query fails when it has never heard of a package, which is no failure here.
there=" $({ dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true; } |
    sed -n 's/^installed //p' | tr '\n' ' ') "
missing=()
for package in "${packages[@]}"; do
    case $there in
    *" $package "*) mark='✓' ;;
    *) mark='✗' missing+=("$package") ;;
    esac
    if [ "$mode" = show ]; then echo "  $mark $package"; fi
done
if [ "$mode" = show ] || [ ${#missing[@]} -eq 0 ]; then exit 0; fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null || { [ ! -t 0 ] && ! sudo -n true 2>/dev/null; }; then
        echo "Missing Debian packages: ${missing[*]}" >&2
        echo "You are not root and sudo is not to be had here. Ask an administrator to run:" >&2
        echo "    apt-get update && apt-get install -y ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi

echo "Installing the Debian packages that are missing: ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" >>"$log" 2>&1; }
if ! install update || ! install install -y --no-install-recommends "${missing[@]}"; then
    tail -n 15 "$log" >&2
    echo "apt-get could not install them (see above). Is the network there? By hand:" >&2
    echo "    apt-get update && apt-get install -y ${missing[*]}" >&2
    exit 1
fi
echo "Installed." >&2
