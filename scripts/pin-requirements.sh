#!/usr/bin/env bash
# Compiles requirements/dev.in: versions and hashes, no index lines, so that any mirror serves it.
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
    --no-emit-find-links --no-header --no-annotate requirements/dev.in -o requirements/dev.txt
