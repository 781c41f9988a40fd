#!/usr/bin/env bash
# Builds the data plane (Rust, BPF), the Python module and the PyTorch backend. Quick when nothing changed.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\033[1m%s\033[0m\n' "$*"; }

# One core is enough for the compiler of a single file, and it needs nothing of what the others make.
say "Building the PyTorch backend (C++, about a minute the first time), beside it the rest"
PYTHONPATH=python .venv/bin/python -m wiresum.torch.build &
backend=$!
trap 'kill "$backend" 2>/dev/null || true' EXIT
say "Building the daemon (Rust, BPF)"
cargo build --release --locked --quiet -p wiresum-node
install -m 755 -C target/release/wiresum-node .venv/bin/wiresum-node
say "Building the Python module and installing the package in place"
VIRTUAL_ENV="$PWD/.venv" .venv/bin/maturin develop --release --locked --quiet --uv 2>&1 >/dev/null | { grep -E '^(error|warning)' -A 8 >&2 || true; }
wait "$backend"
trap - EXIT
