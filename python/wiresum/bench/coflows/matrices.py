"""Matrices of the kinds that Spectra was evaluated on (arXiv 2603.07373), made from a seed: one coflow each.

`gpt`: few heavy pairs, as pipelines and rings of data parallelism have; `moe`: all pairs, some experts far more popular
than others; `standard`: each unit sends a few large flows and many small ones. The busiest unit's ports need a second.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from wiresum.workload.instance import FORMAT

Flow = tuple[int, int, float]
PORT_BPS = 40e9
BITS = 8
BUSIEST_S = 1.0
RING, PIPELINE = 4, 1.0
"""Units of a ring of data parallelism; bytes between stages of the pipeline, in parts of those on a ring."""
SKEW = 1.2
"""Exponent of Zipf's law of experts' popularity."""
LARGE, SMALL, LARGE_SHARE = 4, 12, 0.7
"""Flows of a unit, and the share of its bytes that large ones have."""


def _gpt(units: int, chance: random.Random) -> Iterator[Flow]:
    for unit in range(units):
        ring = unit // RING * RING
        yield unit, ring + (unit + 1 - ring) % min(RING, units - ring), chance.uniform(0.9, 1.1)
        yield unit, (unit + RING) % units, PIPELINE * chance.uniform(0.9, 1.1)


def _moe(units: int, chance: random.Random) -> Iterator[Flow]:
    popular = [1 / (rank + 1) ** SKEW for rank in range(units)]
    chance.shuffle(popular)
    for unit in range(units):
        for other in range(units):
            yield unit, other, popular[other] * chance.uniform(0.5, 1.5)


def _standard(units: int, chance: random.Random) -> Iterator[Flow]:
    for unit in range(units):
        for count, share in ((LARGE, LARGE_SHARE), (SMALL, 1 - LARGE_SHARE)):
            for other in chance.sample(range(units), min(count, units)):
                yield unit, other, share / count * chance.uniform(0.5, 1.5)


KINDS: dict[str, Callable[[int, random.Random], Iterator[Flow]]] = {"gpt": _gpt, "moe": _moe, "standard": _standard}


def matrix(kind: str, units: int, ports: int, *, dark_s: float, slot_s: float, seed: int) -> dict[str, Any]:
    """An instance with one coflow, ready for JSON. Equal seeds give equal matrices, whatever the darkness."""
    sizes: dict[tuple[int, int], float] = {}
    for source, sink, size in KINDS[kind](units, random.Random(f"{kind} {units} {seed}")):
        if source != sink:
            sizes[source, sink] = sizes.get((source, sink), 0.0) + size
    loads = [0.0] * (2 * units)
    for (source, sink), size in sizes.items():
        loads[source] += size
        loads[units + sink] += size
    scale = BUSIEST_S * ports * PORT_BPS / BITS / max(loads)
    names = [f"u{unit}" for unit in range(units)]
    flows = [{"from": names[a], "to": names[b], "bytes": scale * size} for (a, b), size in sizes.items()]
    # Switches pass both directions of all ports.
    unit = {"ports": ports, "switch_bps": 2 * ports * PORT_BPS, "places": 0}
    return {
        "format": FORMAT,
        "slot_s": slot_s,
        "dark_s": dark_s,
        "port_bps": PORT_BPS,
        "host_bps": PORT_BPS,
        "units": [{"name": name, **unit} for name in names],
        "jobs": [{"id": 1, "traffic": {"flows": flows}}],
    }
