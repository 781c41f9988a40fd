"""Runs one resolved scenario in a process of its own: `python -m wiresum.bench.sim.run FILE.json`.

Prints one object: seconds of wall clock and of CPU, memory before and at most, and the simulator's last record.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from wiresum import _native

STATUS = Path("/proc/self/status")
FORGET_PEAK = Path("/proc/self/clear_refs"), "5"
"""The process's own peak; what `getrusage` counts begins with its parent's."""
KIB = 1024


def run(resolved: str) -> dict[str, Any]:
    """Simulates; what it took."""
    end: dict[str, Any] = {}

    def take(line: str) -> None:
        record = json.loads(line)
        if record["record"] == "end":
            end.update(record)

    path, word = FORGET_PEAK
    path.write_text(word, encoding="ascii")
    before_bytes = memory_bytes("VmRSS")
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    _native.simulate(resolved, take)
    return {
        "wall_s": time.perf_counter() - wall_s,
        "cpu_s": time.process_time() - cpu_s,
        "before_bytes": before_bytes,
        "peak_bytes": memory_bytes("VmHWM"),
        **end,
    }


def memory_bytes(field: str) -> int:
    """Memory that the process has, `VmRSS`, or has had at most, `VmHWM`."""
    lines = STATUS.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * KIB for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]).read_text(encoding="utf-8"))))
