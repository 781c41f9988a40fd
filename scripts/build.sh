#!/usr/bin/env bash
# Builds the data plane (Rust, BPF), the Python module and the PyTorch backend. Quick when nothing changed.
#
# Usage: scripts/build.sh [dev]. `dev` takes the profile of the Rust tests, so that `make test` compiles each crate once.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1-release}" in
    release) profile=(--release) folder=release ;;
    dev) profile=() folder=debug ;;
    *) printf 'error: unknown profile "%s"\nhelp: write scripts/build.sh [dev]\n' "$1" >&2; exit 1 ;;
esac

say() { printf '\033[1m%s\033[0m\n' "$*"; }

# One core is enough for the compiler of a single file, and it needs nothing of what the others make.
say "Building the PyTorch backend (C++, about a minute the first time), beside it the rest"
PYTHONPATH=python .venv/bin/python -m wiresum.torch.build &
backend=$!
trap 'kill "$backend" 2>/dev/null || true' EXIT
say "Building the daemon (Rust, BPF)"
cargo build "${profile[@]}" --locked --quiet -p wiresum-node
install -m 755 -C "target/$folder/wiresum-node" .venv/bin/wiresum-node
say "Building the Python module and installing the package in place"
VIRTUAL_ENV="$PWD/.venv" .venv/bin/maturin develop "${profile[@]}" --locked --quiet --uv 2>&1 >/dev/null | { grep -E '^(error|warning)' -A 8 >&2 || true; }
wait "$backend"
trap - EXIT
