#!/usr/bin/env bash
# Makes build/packages/wiresum-*.tar.gz: the sources that `pip install` builds from where no wheel fits. They contain all
# that the Python package is built from, the daemon's crates among them.
set -euo pipefail
cd "$(dirname "$0")/.."

printf '\033[1mPacking the sources\033[0m\n'
rm -f build/packages/wiresum-*.tar.gz
.venv/bin/maturin sdist --out build/packages
