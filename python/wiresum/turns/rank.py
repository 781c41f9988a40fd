"""A rank without PyTorch that sums what a job of a workload does, in its turns, and checks every sum.

It begins in a tenth of the time that PyTorch takes to be imported, for tests and benchmarks with many ranks. One line
of JSON for each sum: seconds, and how often something was sent again.
"""

from __future__ import annotations

import json
import os
import time

import numpy as np

from wiresum.document import read_text
from wiresum.errors import PlanError
from wiresum.gates.rank import join_in_turns, plan_in_turn
from wiresum.plan.aggregation_plan import AggregationPlan

JOIN_S = 30.0
SUM_S = 120.0
FLOAT_BYTES = 4
LARGEST = 7
"""Largest of the whole numbers that are summed: exact in float32 and with a factor of 10⁶ for 64 workers."""


def contribution(rank: int, step: int, elements: int) -> np.ndarray:
    """(elements,) float32: what a rank adds."""
    return ((np.arange(elements) + rank + step) % (LARGEST + 1)).astype(np.float32)


def _secret() -> str:
    return read_text(os.environ["WIRESUM_SECRET_FILE"], "WIRESUM_SECRET_FILE", PlanError).strip()


def main() -> None:
    """Sums as often as the job has iterations.

    Raises:
        SystemExit: a sum is wrong.
    """
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    elements = max(1, int(os.environ["WIRESUM_JOB_BYTES"]) // FLOAT_BYTES)
    driver = os.environ["WIRESUM_TURNS"]
    if "WIRESUM_PLAN" in os.environ:
        plan = AggregationPlan.read(os.environ["WIRESUM_PLAN"]).to_json()
    else:
        plan = plan_in_turn(driver, int(os.environ["WIRESUM_JOB"]), rank, _secret())
    with join_in_turns(driver, plan, rank, int(os.environ["WIRESUM_INCARNATION"]), JOIN_S) as turns:
        for step in range(int(os.environ["WIRESUM_JOB_ITERATIONS"])):
            time.sleep(float(os.environ["WIRESUM_JOB_COMPUTE_S"]))
            values = contribution(rank, step, elements)
            began_s = time.monotonic()
            turns.engine.all_reduce(values.data, timeout_s=SUM_S)
            seconds = time.monotonic() - began_s
            wanted = sum(
                (contribution(other, step, elements) for other in range(ranks)), np.zeros(elements, np.float32)
            )
            if not np.array_equal(values, wanted):
                raise SystemExit(f"rank {rank}, step {step}: a wrong sum")
            repetitions = turns.statistics()["repetitions"]
            print(json.dumps({"step": step, "seconds": seconds, "repetitions": repetitions}), flush=True)


if __name__ == "__main__":
    main()
