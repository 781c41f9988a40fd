"""The calls that `make bench` makes, one a line: the name of the JSON file, a tab, the command and its options."""

from wiresum.bench import BENCHMARKS

for name, benchmark in BENCHMARKS.items():
    for file, options in benchmark.repeated.items():
        print(f"{file}\t{name} {options}")
