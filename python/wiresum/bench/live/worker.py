"""A rank of `wiresum bench live`: joins, then sums whenever it is told to, and says how long that took.

One line on standard input for each collective, the number of its elements; one line of JSON on standard output for the
join and for each collective.
"""

import json
import os
import sys
import time

import numpy as np

from wiresum import _native
from wiresum.plan.aggregation_plan import AggregationPlan

JOIN_S = 30.0
SUM_S = 60.0
LARGEST = 7
"""The largest of the whole numbers that are summed: exact in float32 and with a factor of 10⁶ for 64 workers."""


def contribution(rank: int, elements: int) -> np.ndarray:
    """(elements,) float32: what a rank adds."""
    return ((np.arange(elements) + rank) % (LARGEST + 1)).astype(np.float32)


def main() -> None:
    """Serves until standard input ends."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    plan = AggregationPlan.read(os.environ["WIRESUM_PLAN"]).to_json()
    incarnation = int(os.environ["WIRESUM_INCARNATION"])
    with _native.Engine(plan, rank, incarnation, timeout_s=JOIN_S) as engine:
        print(json.dumps({"joined": rank}), flush=True)
        for line in sys.stdin:
            print(json.dumps(_sum(engine, rank, ranks, int(line))), flush=True)


def _sum(engine: "_native.Engine", rank: int, ranks: int, elements: int) -> dict[str, object]:
    values = contribution(rank, elements)
    expected = sum((contribution(other, elements) for other in range(ranks)), np.zeros(elements, dtype=np.float32))
    started = time.monotonic()
    engine.all_reduce(values.data, timeout_s=SUM_S)
    seconds = time.monotonic() - started
    right = bool(np.array_equal(values, expected))
    return {"seconds": seconds, "right": right, "repetitions": engine.statistics()["repetitions"]}


if __name__ == "__main__":
    main()
