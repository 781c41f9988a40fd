"""Random instances of P4INC-AOI's kind: units behind an optical switch, synchronous jobs of 2 to 16 workers."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from wiresum.workload.instance import FORMAT

GBIT = 1e9
WORKERS = (2, 4, 8, 16)
SMALLEST_BYTES, LARGEST_BYTES = 102e6, 548e6
"""From ResNet50 to VGG19 (P4INC-AOI §VII-C)."""
UPDATE_BYTES_PER_S = 8e9
"""Bytes of a gradient that a server updates in a second; the paper does not say."""


@dataclass(frozen=True)
class Case:
    """What an instance is drawn from.

    Attributes:
        units: racks or pods.
        jobs: all there from the start on.
        ports: of a unit, at 40 Gbit/s.
        switch_gbit: rate of a unit's switch, both directions together.
        places: jobs that a switch sums at a time.
        slot_s: seconds of a slot.
        dark_s: seconds in which a new circuit is dark.
        spread: share of jobs with workers in two units.
        data: factor of all bytes.
    """

    units: int
    jobs: int
    ports: int = 4
    switch_gbit: float = 400.0
    places: int = 2
    slot_s: float = 1.0
    dark_s: float = 0.02
    spread: float = 0.3
    data: float = 1.0

    @property
    def name(self) -> str:
        """The case in a few words."""
        extra = f", data x {self.data:g}" if self.data != 1 else ""
        return f"{self.jobs} jobs, {self.units} units x {self.ports} ports, slots of {self.slot_s:g} s{extra}"


def instance(case: Case, seed: int, paper: bool = True) -> dict[str, Any]:
    """An instance as a document. Equal seeds give equal instances."""
    chance = random.Random(f"{case} {seed}")
    names = [f"u{unit}" for unit in range(case.units)]
    jobs = []
    for number in range(case.jobs):
        workers, home = chance.choice(WORKERS), chance.choice(names)
        bytes_each = case.data * chance.uniform(SMALLEST_BYTES, LARGEST_BYTES)
        placed = {home: workers}
        if chance.random() < case.spread:
            other = chance.choice([name for name in names if name != home])
            placed = {home: workers // 2, other: workers // 2}
        star = {
            "workers": placed,
            "server": chance.choice(names),
            "bytes": bytes_each,
            "update_s": bytes_each / UPDATE_BYTES_PER_S,
        }
        jobs.append({"id": number + 1, "traffic": {"star": star}})
    unit = {"ports": case.ports, "switch_bps": case.switch_gbit * GBIT, "places": case.places}
    return {
        "format": FORMAT,
        "slot_s": case.slot_s,
        "dark_s": case.dark_s,
        "port_bps": 40 * GBIT,
        "host_bps": 10 * GBIT,
        "server_bps": 40 * GBIT,
        "units": [{"name": name, **unit} for name in names],
        "before": "even",
        "paper": paper,
        "jobs": jobs,
    }
