#!/usr/bin/env bash
# Makes build/packages/*.whl: the Python package, its native module and PyTorch extension, and the daemon, for any Linux
# of this architecture whose glibc is recent enough: the wheel's name says which. libelf and zlib are inside.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/static.sh
. scripts/static.sh

say "Building the daemon, libelf and zlib inside"
static_daemon build/wheel/wiresum-node
say "Building the PyTorch extension, if none fits"
PYTHONPATH=python .venv/bin/python -m wiresum.torch.build
say "Building the wheel"
rm -f build/packages/*.whl
.venv/bin/maturin build --release --locked --strip --features static --out build/packages
units=()
for unit in packaging/systemd/*; do
    units+=("data/share/wiresum/systemd/$(basename "$unit")=$unit")
done
.venv/bin/python scripts/into_wheel.py build/packages/*.whl scripts/wiresum-node=build/wheel/wiresum-node "${units[@]}"
