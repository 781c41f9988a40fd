#!/usr/bin/env bash
# Builds the site into build/site/html. MkDocs and its theme are installed in a place of their own, as nothing else needs them.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly tools=build/site/tools

if ! cmp -s requirements/docs.txt "$tools/installed.txt"; then
    .venv/bin/uv venv --quiet --clear "$tools"
    .venv/bin/uv pip install --python "$tools/bin/python" --quiet --require-hashes -r requirements/docs.txt
    cp requirements/docs.txt "$tools/installed.txt"
fi
.venv/bin/python scripts/site_pages.py build/site/pages
NO_MKDOCS_2_WARNING=1 "$tools/bin/mkdocs" build --strict --clean
.venv/bin/python scripts/site_requests.py build/site/html
echo "docs: open build/site/html/index.html; search needs a server: python -m http.server -d build/site/html"
