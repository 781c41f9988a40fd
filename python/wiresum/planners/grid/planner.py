"""GRID: aggregators at the highest worst-off worker's rate, whatever links carry (Fang et al., ToN 2023)."""

from __future__ import annotations

import json
import time

import numpy as np

from wiresum.plan.aggregation_plan import Solution
from wiresum.plan.assignment import Assignment, Instance
from wiresum.plan.options import PlanOptions
from wiresum.planners.optimisation.process import last_answer
from wiresum.topology.graph import Floats

SOLVER = "wiresum.planners.grid.linear"


def grid(instance: Instance, options: PlanOptions) -> Assignment:
    """Max-min rates by a linear programme (`grid.linear`), then for each worker one aggregator, drawn by its rates.

    It knows what switches and the server can take in, and no link: the rate that is left of it is in the plan's cost.
    Workers at the same distances are one in the programme. Of optimal rates, those over the fewest links are taken.

    Raises:
        SupportError: HiGHS is not installed.
        PlanError: there was no answer in time.
    """
    began_s = time.monotonic()
    rate_bps, rates = _rates(instance, options.time_limit_s)
    random = np.random.default_rng(options.seed)
    shares = np.maximum(rates, 0)[instance.groups.of]
    shares /= shares.sum(axis=1, keepdims=True)
    chosen = [random.choice(len(of_worker), p=of_worker) for of_worker in shares]
    target = np.repeat(np.array(chosen)[:, None], len(instance.sub_models), axis=1)
    solution = Solution(
        solver="HiGHS and rounding",
        status="heuristic",
        objective="seconds of the way up, if no link bounded it",
        value=instance.model_bytes * 8 / rate_bps,
        seed=options.seed,
        seconds=time.monotonic() - began_s,
    )
    return Assignment(instance, target, solution, allocation="shared")


def _rates(instance: Instance, time_limit_s: float) -> tuple[float, Floats]:
    """The worst-off worker's rate in bit/s, and (groups, aggregators) the rates of each group's workers."""
    groups = instance.groups
    question = {
        "workers": groups.size.tolist(),
        "hops": groups.hops.tolist(),
        "hops_to_server": instance.hops_to_server.tolist(),
        "adding_bps": instance.graph.adding_bps[instance.aggregators].tolist(),
    }
    rate_bps, rates = json.loads(last_answer(SOLVER, json.dumps(question), time_limit_s, "grid", groups.hops.size))
    return rate_bps, np.array(rates)
