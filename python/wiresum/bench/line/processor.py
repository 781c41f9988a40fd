"""Processor time: of a rank's process, of its engine's thread, and of the whole machine."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""Columns of the first line of /proc/stat (proc_stat(5))."""
IDLE = {"idle", "iowait", "steal"}


@dataclass(frozen=True)
class Spent:
    """Seconds of processors since some time.

    Attributes:
        process: of this process with all its threads, and of the kernel on their behalf.
        engine: the part of it that the engine's thread has taken; 0 where there is none.
        machine: of all processors, by anybody; in ticks of 10 ms.
        softirq: the part of it in which the kernel handled packets by itself, the summing program included.
    """

    process: float
    engine: float
    machine: float
    softirq: float

    def since(self, before: Spent) -> Spent:
        """What has been spent from `before` to this."""
        return Spent(
            self.process - before.process,
            self.engine - before.engine,
            self.machine - before.machine,
            self.softirq - before.softirq,
        )


def spent() -> Spent:
    """All that has been spent so far."""
    words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    ticks = dict(zip(FIELDS, map(int, words), strict=False))
    busy = sum(count for name, count in ticks.items() if name not in IDLE)
    return Spent(time.process_time(), engine_s(), busy / TICKS_PER_S, ticks["softirq"] / TICKS_PER_S)


def engine_s() -> float:
    """Seconds of the engines of this process."""
    import wiresum.torch

    return float(sum(group.engine.get("cpu_seconds", 0.0) for group in wiresum.torch.report().groups))
