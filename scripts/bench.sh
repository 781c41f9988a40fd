#!/usr/bin/env bash
# Every benchmark that docs/benchmarks.md quotes; JSON under build/bench. About ten minutes.
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

measure allreduce-4 allreduce --workers 4 --rate 500mbit --size 25MB --against gloo
measure allreduce-8 allreduce --workers 8 --rate 250mbit --size 25MB --against gloo
measure allreduce-4-int16 allreduce --workers 4 --rate 500mbit --size 25MB --lanes int16-le --against gloo
measure allreduce-4-cache allreduce --workers 4 --rate 500mbit --size 25MB --policy cache --against gloo
measure allreduce-4-udp allreduce --workers 4 --rate 500mbit --size 25MB --engine udp --against gloo
measure aggregator aggregator
measure aggregator-engines aggregator --engines xdp,af_xdp,udp,tcp --runs 3 --plot build/bench
measure loss loss --losses 0,1%,5% --size 4MB --runs 3
measure codec codec
measure forest forest --workers 4 --rate 200mbit --size 10MB --runs 3
measure forest-solver forest --solver-only
measure heterogeneity heterogeneity --plot build/bench/heterogeneity.png
measure compare compare
measure compare-late compare --start W3=0.2
measure kills kills --kills 10
measure isolation isolation --runs 3
measure deploy deploy --runs 5
measure sim sim
measure rates rates --plot build/bench/rates.png
