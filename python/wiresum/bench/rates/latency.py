"""How long rate negotiation takes on XAgg's test bed (XAgg, §VI-C): by role, at the beginning and later."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import Any

from wiresum.bench.rates.task import Task
from wiresum.bench.result import Result
from wiresum.bench.workers import view
from wiresum.plan.choices import Engine
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Topology

PERIODS = {"initialization": "rate_initialization", "update": "rate_update"}
"""Prefixes of the counters: how many answers, and how many microseconds in all."""
TOGETHER = 2
"""Collectives in flight: a worker that goes on with the second one says so, which is an update."""
WARMUP_ELEMENTS = 4096
KILO = 1e3
PAPER_MS = {
    ("worker", "initialization"): 12.0,
    ("server", "initialization"): 5.0,
    ("ps", "initialization"): 2.0,
    ("worker", "update"): 2.0,
    ("server", "update"): 1.0,
}
"""XAgg's, on its machines."""
ROLES = {"worker": "worker", "aggregator": "server", "ps": "ps"}
"""By kind of node."""


def measure(engine: Engine, elements: int, rounds: int) -> list[Result]:
    """Milliseconds of every answer that a worker waited for; of a server and the PS, the mean from question to answer.

    Args:
        engine: what sums.
        elements: float32 values of each of the tensors in flight.
        rounds: how often everyone begins anew.

    Raises:
        TestbedError: a worker failed.
    """
    topology = xagg()
    made = plan(topology, Job(policy="cache", gradient_bytes=4 * elements), PlanOptions(engine=engine))
    with Testbed(topology, made, loopback=False) as bed:
        started, output = str(bed.folder / "started"), str(bed.folder / "rates.json")
        task = Task(elements, WARMUP_ELEMENTS, TOGETHER, rounds, started, output)
        content = view(bed, task)
        nodes = {name: counted["control"] for name, counted in bed.deployment.stop().items()}
    return [*of_workers(content["growths"]), *of_nodes(topology, nodes)]


def of_workers(growths: list[list[dict[str, int]]]) -> Iterator[Result]:
    """A figure for each rank and round with answers: their mean, which is the answer itself if it is one."""
    for period, prefix in PERIODS.items():
        means = [mean for rounds in growths for growth in rounds for mean in mean_ms(growth, prefix)]
        if means:
            yield to_result("worker", period, means)


def of_nodes(topology: Topology, nodes: dict[str, dict[str, int]]) -> Iterator[Result]:
    """A figure for each node of a role."""
    for role in ("server", "ps"):
        counted = [nodes[name] for name in nodes if ROLES[topology.node(name).kind] == role]
        for period, prefix in PERIODS.items():
            means = [mean for counters in counted for mean in mean_ms(counters, prefix)]
            if means:
                yield to_result(role, period, means)


def mean_ms(counters: dict[str, int], prefix: str) -> list[float]:
    """Mean of the answers counted; nothing if there are none."""
    count = counters.get(f"{prefix}s", 0)
    return [counters[f"{prefix}_us"] / count / KILO] if count else []


def to_result(role: str, period: str, means_ms: list[float]) -> Result:
    """Median and 99th percentile, beside the paper's figure."""
    extra: dict[str, Any] = {"role": role, "period": period, "p99": percentile(means_ms, 0.99)}
    if paper := PAPER_MS.get((role, period)):
        extra["paper_ms"] = paper
    return Result(f"{role}, {period}", "ms", means_ms, {**extra, "mean": statistics.fmean(means_ms)})


def percentile(values: list[float], part: float) -> float:
    """The least value that so many of them do not exceed.

    Example:
        >>> percentile([3.0, 1.0, 2.0], 0.99)
        3.0
    """
    return sorted(values)[math.ceil(part * len(values)) - 1]
