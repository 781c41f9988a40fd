#!/usr/bin/env bash
# Compiles requirements/dev.in: versions and hashes, no index lines, so that any mirror serves it.
set -euo pipefail
cd "$(dirname "$0")/.."
for name in bootstrap dev docs; do
    .venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-emit-find-links --no-header --no-annotate "requirements/$name.in" -o "requirements/$name.txt"
done
