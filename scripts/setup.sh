#!/usr/bin/env bash
# Installs what a build needs: system packages (through apt, when it may) and the Python packages of requirements/dev.txt in .venv.
# Says what it installs, does nothing that is already done, and ends with one clear line when something is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly MIN_RUST=1.90
readonly MIN_PYTHON=3.11
# Debian's names; the command or file that shows that a package is there.
readonly PACKAGES=(
    "clang-19:clang-19"                       # compiles bpf/
    "clang-format-19:clang-format-19"         # make lint
    "libelf-dev:/usr/include/libelf.h"        # libbpf
    "zlib1g-dev:/usr/include/zlib.h"          # libbpf
    "linux-libc-dev:/usr/include/linux/bpf.h" # kernel headers for bpf/
    "libbpf-dev:/usr/include/bpf/bpf_helpers.h" # BPF helper declarations for bpf/
    "pkg-config:pkg-config"                   # libbpf
    "g++:g++"                                 # the PyTorch backend
    "iproute2:ip"                             # the testbed
    "ethtool:ethtool"                         # the testbed
    "iputils-ping:ping"                       # latency of one hop, in wiresum bench aggregator
)

say() { printf '\033[1m%s\033[0m\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }
# Succeeds when version $1 is at least $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }
present() { case "$1" in /*) [ -e "$1" ] || [ -e "${1/include/include/$(uname -m)-linux-gnu}" ] ;; *) command -v "$1" >/dev/null ;; esac; }

check_rust() {
    command -v cargo >/dev/null || fail "cargo is missing; install Rust $MIN_RUST or later with rustup (rustup.rs)"
    local version
    version=$(rustc --version | cut -d' ' -f2)
    at_least "$version" "$MIN_RUST" || fail "Rust $version is too old; run 'rustup update stable' (needs $MIN_RUST)"
}

find_python() {
    local candidate
    for candidate in python3.11 python3.12 python3.13 python3; do
        if command -v "$candidate" >/dev/null && "$candidate" -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "Python $MIN_PYTHON or later is missing; on Debian: apt-get install python3 python3-venv"
}

install_system_packages() {
    local missing=() entry
    for entry in "${PACKAGES[@]}"; do
        present "${entry#*:}" || missing+=("${entry%%:*}")
    done
    "$1" -c "import ensurepip" 2>/dev/null || missing+=(python3-venv)
    [ ${#missing[@]} -eq 0 ] && return
    command -v apt-get >/dev/null || fail "please install these (Debian's names): ${missing[*]}"
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || fail "please run once: sudo apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    say "Installing system packages: ${missing[*]}"
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
        fail "apt-get could not install: ${missing[*]}"
}

install_python_packages() {
    [ -x .venv/bin/python ] || { say "Creating .venv"; "$1" -m venv .venv; }
    if [ ! -x .venv/bin/uv ]; then
        .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
    fi
    say "Installing Python packages into .venv (PyTorch with its libraries is about 5 GB)"
    .venv/bin/uv pip install --python .venv/bin/python --quiet --require-hashes -r requirements/dev.txt
}

main() {
    check_rust
    local python
    python=$(find_python)
    install_system_packages "$python"
    install_python_packages "$python"
    say "Set-up done."
}

main
