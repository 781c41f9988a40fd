"""The generator's process: reads a task as JSON, sends, and prints what came of it.

`python -m wiresum.bench.aggregator.load CORE PRIORITY`, in the generator's namespace.
"""

from __future__ import annotations

import json
import os
import sys

from wiresum import _native


def main() -> None:
    """Pins itself before it makes any thread."""
    core, priority = int(sys.argv[1]), int(sys.argv[2])
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(priority))
    json.dump(_native.bench_load(**json.load(sys.stdin)), sys.stdout)


if __name__ == "__main__":
    main()
