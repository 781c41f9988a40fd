#!/usr/bin/env bash
# Check everything that can be checked without running the product. The quick checks go first, clippy last.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo clippy --version >/dev/null 2>&1 && cargo fmt --version >/dev/null 2>&1 || rustup component add clippy rustfmt
cargo fmt --all --check
.venv/bin/ruff format --check --quiet python tests spec scripts
.venv/bin/ruff check --quiet python tests spec scripts
clang-format-19 --dry-run --Werror bpf/{,keyed/,rows/,switch/}*.c bpf/{,keyed/,rows/,switch/}*.h python/wiresum/torch/csrc/*.cpp python/wiresum/torch/csrc/*.h
.venv/bin/mypy
cargo run --quiet --locked -p wiresum-wire --bin generate -- --check
cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
echo "lint: clean"
