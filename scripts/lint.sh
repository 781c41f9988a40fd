#!/usr/bin/env bash
# Everything that can be checked without running the product.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
cargo run --quiet --locked -p wiresum-wire --bin generate -- --check
.venv/bin/ruff format --check --quiet python tests spec scripts
.venv/bin/ruff check --quiet python tests spec scripts
.venv/bin/mypy
clang-format-19 --dry-run --Werror bpf/{,keyed/,rows/,switch/}*.c bpf/{,keyed/,rows/,switch/}*.h python/wiresum/torch/csrc/*.cpp python/wiresum/torch/csrc/*.h
echo "lint: clean"
