"""`wiresum bench routing`: the rate that planners leave to a worker, on InGo's networks, beside what is proven."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from wiresum.bench import bars
from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.routing.command import Options
from wiresum.plan.aggregation_plan import Solution
from wiresum.plan.assignment import Assignment, Instance, validate
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import SWITCH_PLANNERS
from wiresum.planners.comparison import sample_workers
from wiresum.planners.ingo.choices import Choices
from wiresum.planners.ingo.relaxation import relax
from wiresum.planners.ingo.rounding import roundings
from wiresum.planners.path_sets import PathSets
from wiresum.predict.cost import cost_of
from wiresum.topology.generators.fat_tree import fat_tree
from wiresum.topology.generators.ingo import ingo
from wiresum.topology.model import Topology

SLOWEST_BPS, FASTEST_BPS = 3e9, 10e9
"""Rates of links, drawn in each direction at random (InGo §VI-C)."""
SERVER_BPS = 100e9
"""The server's link is its capacity, N(d); a slower link would contradict it."""
FAT_TREE_K = 8
"""The paper does not say; 80 switches, all programmable, are what its group uses elsewhere."""
PRINTED_SAMPLES = 10
"""Roundings that the paper averages."""
PRINTED_PATHS = 16
POD_HOPS = 3
"""To the switches of a worker's own pod, and the core: "workers cannot select switches from other pods"."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class MethodOutcome:
    """One method on one network.

    Attributes:
        rate_bps: of every worker.
        elements_per_second: that switches add at it.
        bound_bps: that is proven; None where nothing is.
        seconds: of planning.
    """

    rate_bps: float
    elements_per_second: float
    bound_bps: float | None
    seconds: float


def paper_network(seed: int) -> Topology:
    """InGo's simulated network (§VI-C), as far as it is stated."""
    made = fat_tree(FAT_TREE_K, programmable=1.0, memory_bytes=None)
    random = Random(seed)

    def rate() -> float:
        return random.uniform(SLOWEST_BPS, FASTEST_BPS)

    links = [
        link.model_copy(update={"bandwidth_bps": SERVER_BPS})
        if "ps" in {link.source, link.target}
        else link.model_copy(update={"bandwidth_bps": rate(), "reverse_bandwidth_bps": rate()})
        for link in made.links
    ]
    return made.model_copy(update={"links": links})


def planned(name: str, instance: Instance, options: PlanOptions) -> list[MethodOutcome]:
    """What a method gives, judged by the cost of all planners."""
    began_s = time.monotonic()
    made = [validate(one) for one in METHODS[name](instance, options)]
    seconds = (time.monotonic() - began_s) / len(made)
    costs = [cost_of(one, predict=False) for one in made]
    bits = instance.model_bytes * 8
    bounds = [None if one.solution.bound is None else bits / one.solution.bound for one in made]
    return [
        MethodOutcome(cost.sending_rate_bps, cost.summed_elements_per_second, bound, seconds)
        for cost, bound in zip(costs, bounds, strict=True)
    ]


def _by(planner: str) -> Callable[[Instance, PlanOptions], list[Assignment]]:
    return lambda instance, options: [SWITCH_PLANNERS[planner](instance, options)]


def _as_printed(instance: Instance, options: PlanOptions) -> list[Assignment]:
    """R-InGo's roundings as they are: the paper's programme, renormalised, of its own pod's switches."""
    choices = Choices.of(instance, PathSets(instance.graph, PRINTED_PATHS, 0), POD_HOPS)
    relaxation = relax(choices, options.time_limit_s, "r-ingo")
    nothing = Solution(solver="HiGHS and rounding", status="heuristic", objective="1 / rate", value=1 / relaxation.rate)
    drawn = roundings(choices, relaxation, PRINTED_SAMPLES, options.seed)
    return [selection.assignment(instance, nothing) for selection in drawn]


def _one_level(instance: Instance, options: PlanOptions) -> list[Assignment]:
    """ATP as InGo describes it: summed at the first switch, and only there."""
    return [replace(SWITCH_PLANNERS["atp"](instance, options), upstream=None)]


METHODS: dict[str, Callable[[Instance, PlanOptions], list[Assignment]]] = {
    "ingo": _by("ingo"),
    "r-ingo": _by("r-ingo"),
    "R-InGo's roundings": _as_printed,
    "grid": _by("grid"),
    "atp, one level": _one_level,
    "switchml": _by("switchml"),
}


def measure(options: Options, progress: Progress = lambda line: None) -> Report:
    """Plans every network by every method."""
    results = []
    for network, instances in _cases(options):
        for method in METHODS:
            outcomes = [
                one
                for seed, instance in enumerate(instances)
                for one in planned(method, instance, PlanOptions(seed=seed, time_limit_s=options.time_limit_s))
            ]
            results.append(to_result(network, method, outcomes))
            progress(describe(results[-1]))
    ratios = [
        Ratio(f"{result.name} / proven bound, worst", result.extra["worst_of_bound"])
        for result in results
        if result.extra["worst_of_bound"] is not None
    ]
    parameters = {
        "workers": list(options.workers), "seeds": options.seeds, "time_limit_s": options.time_limit_s,
    }  # fmt: skip
    return Report("routing", parameters, results, ratios, notes=[describe(result) for result in results])


def _cases(options: Options) -> Iterator[tuple[str, list[Instance]]]:
    for shape in ("star", "ring", "mesh"):
        yield f"testbed as {shape}, 10 workers", [Instance.of(ingo(shape), Job())]
    for count in options.workers:
        networks = [(seed, paper_network(seed)) for seed in range(1, options.seeds + 1)]
        yield (
            f"fat-tree, {count} workers",
            [Instance.of(network, Job(workers=sample_workers(network, count, seed))) for seed, network in networks],
        )


def to_result(network: str, method: str, outcomes: Sequence[MethodOutcome]) -> Result:
    """One method on networks of one kind."""
    proven = [one.rate_bps / one.bound_bps for one in outcomes if one.bound_bps is not None]
    extra = {
        "network": network,
        "method": method,
        "mean_gbps": statistics.fmean(one.rate_bps for one in outcomes) / 1e9,
        "elements_per_second": statistics.fmean(one.elements_per_second for one in outcomes),
        "worst_of_bound": min(proven) if proven else None,
        "planning_seconds": max(one.seconds for one in outcomes),
    }
    return Result(f"{network}, {method}", "Gbit/s", [one.rate_bps / 1e9 for one in outcomes], extra)


def describe(result: Result) -> str:
    """Rate, sums and what is proven."""
    extra = result.extra
    proven = "" if extra["worst_of_bound"] is None else f", {extra['worst_of_bound']:.1%} of the bound or more"
    sums = f"{extra['elements_per_second'] / 1e6:.0f} million sums/s"
    return f"{result.name}: {extra['mean_gbps']:.3f} Gbit/s, {sums}{proven}, {extra['planning_seconds']:.1f} s"


def of(report: Report, network: str) -> dict[str, Result]:
    """A network's results by method."""
    return {result.extra["method"]: result for result in report.results if result.extra["network"] == network}


def draw(report: Report, quantity: str, starts: str, path: Path) -> None:
    """A quantity by network and method; errors as for `bars.draw`.

    Args:
        report: of this benchmark.
        quantity: `mean_gbps` or `elements_per_second`.
        starts: of the networks' names that are drawn.
        path: of the picture.
    """
    networks = list(
        dict.fromkeys(one.extra["network"] for one in report.results if one.extra["network"].startswith(starts))
    )
    values = {method: [of(report, network)[method].extra[quantity] for network in networks] for method in METHODS}
    label = "sending rate (Gbit/s)" if quantity == "mean_gbps" else "elements summed by switches (1/s)"
    bars.draw(path, groups=networks, bars=values, bounds={}, ylabel=label)
