#!/usr/bin/env bash
# The calls that benchmarks name in their `command.py`; JSON under build/bench. About ten minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
wiresum=.venv/bin/wiresum
mkdir -p build/bench

# Runs `wiresum bench "$@"` after its file name, keeps the JSON, shows the ratios.
measure() {
    local file=build/bench/$1.json
    shift
    printf '\033[1mwiresum bench %s\033[0m\n' "$*"
    "$wiresum" bench "$@" --json >"$file"
    .venv/bin/python - "$file" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
for result in report["results"]:
    print(f"  {result['name']}: {result['median']:.4g} {result['unit']} ({result['min']:.4g} to {result['max']:.4g})")
for ratio in report["ratios"]:
    print(f"  {ratio['name']}: {ratio['value']:.3f}")
PYTHON
}

.venv/bin/python -m wiresum.bench | while IFS=$'\t' read -r name arguments; do
    # shellcheck disable=SC2086 - the arguments are several words
    measure "$name" $arguments </dev/null
done
