#!/usr/bin/env bash
# Builds the data plane (Rust, BPF), the Python module and the PyTorch backend. Quick when nothing changed.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\033[1m%s\033[0m\n' "$*"; }

say "Building the data plane (Rust, BPF)"
cargo build --release --locked --quiet --workspace
# The package is installed in place; `maturin` runs again only when the module or the metadata is newer than the last installation.
native=target/release/lib_native.so
if [ ! -e .venv/.package ] || [ "$native" -nt .venv/.package ] || [ pyproject.toml -nt .venv/.package ]; then
    say "Installing the Python package in place"
    VIRTUAL_ENV="$PWD/.venv" .venv/bin/maturin develop --release --locked --quiet --uv >/dev/null
    touch .venv/.package
fi
install -m 755 -C target/release/wiresum-node .venv/bin/wiresum-node
say "Building the PyTorch backend (C++, about a minute the first time)"
.venv/bin/python -m wiresum.torch.build
