"""`wiresum bench forest`: all-reduces over one to n aggregation servers with the workers' links, beside a ring."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wiresum.bench import bars
from wiresum.bench.allreduce import measure as allreduce
from wiresum.bench.allreduce.command import Options as Turns
from wiresum.bench.forest.command import Options
from wiresum.bench.result import Ratio, Report, Result
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners.forest.planner import Grown, grow, place
from wiresum.predict.framing import wire_bytes
from wiresum.testbed import Testbed
from wiresum.topology.generators.servers import servers
from wiresum.topology.model import Topology

PRODUCT, RIVAL = "wiresum", "gloo"


@dataclass(frozen=True)
class Bound:
    """The least time of one all-reduce that stands alone.

    Attributes:
        exponent_bytes: on the wire; they pass before the values, over the first tree.
        value_bytes: on the wire, headers included.
        exponent_bps: rate of the first tree alone.
        value_bps: of the forest: what the linear programme gives.
    """

    exponent_bytes: int
    value_bytes: int
    exponent_bps: float
    value_bps: float

    @classmethod
    def of(cls, plan: AggregationPlan, grown: Grown, size_bytes: int) -> Bound:
        """The bound of a planned forest."""
        named = grown.named
        first = named.instance.rate_of(grown.forest.trees[0]) * named.unit_bps
        exponents, *values = [wire_bytes(plan, stream, size_bytes) for stream in plan.streams]
        return cls(exponents, sum(values), first, grown.rate_bps)

    @property
    def seconds(self) -> float:
        """Seconds of the whole all-reduce."""
        return 8 * (self.exponent_bytes / self.exponent_bps + self.value_bytes / self.value_bps)


def measure(options: Options, progress: Callable[[str], None] = lambda line: None) -> Report:
    """Measures every number of servers, each on a network of its own, with Gloo's ring in turn on the same links.

    Args:
        options: what to measure.
        progress: takes a line after each number of servers.

    Raises:
        TestbedError: a worker failed; the message has the end of its output.
        SupportError: the solver is not installed.
    """
    results: list[Result] = []
    for name, count, topology in cases(options):
        job, choices = job_of(options), PlanOptions(engine=options.engine)
        grown = grow(topology, job, choices.time_limit_s)
        plan = place(grown, topology, job, choices)
        bound = Bound.of(plan, grown, options.size_bytes)
        turns = Turns(size_bytes=options.size_bytes, against=(RIVAL,), repeats=options.repeats, warmups=options.warmups)
        with Testbed(topology, plan, mtu_bytes=options.mtu_bytes, loopback=False) as bed:
            seconds = allreduce.run_workers(bed, turns)["seconds"]
        results += to_results(name, count, bound, seconds)
        progress(describe(results[-2]))
    parameters = {
        "workers": options.workers,
        "rate_bps": options.rate_bps,
        "size_bytes": options.size_bytes,
        "policy": options.policy,
        "engine": options.engine,
        "topology": "servers in network namespaces, shaped by tbf",
    }
    notes = [describe(result) for result in results if result.extra["backend"] == PRODUCT]
    return Report("forest", parameters, results, ratios(results), notes=notes)


def job_of(options: Options) -> Job:
    """The job that the planner is asked to place."""
    return Job(mtu_bytes=options.mtu_bytes, policy=options.policy, gradient_bytes=options.size_bytes)


def cases(options: Options) -> Iterator[tuple[str, int, Topology]]:
    """Name, number of servers and network of each measurement."""
    workers, rate_bps = options.workers, options.rate_bps
    for count in range(1, workers + 1):
        yield f"{count} server{'s' * (count > 1)}", count, servers(workers, count, rate_bps)
    if workers > 1:
        yield "servers on the workers' hosts", workers, servers(workers, workers, rate_bps, colocated=True)


def to_results(name: str, count: int, bound: Bound, seconds: dict[str, list[float]]) -> tuple[Result, Result]:
    """Ours and the ring's, with the bound that the linear programme gives."""
    extra = {
        "servers": count,
        "bound_s": bound.seconds,
        "planned_bps": bound.value_bps,
        "wire_bytes": bound.exponent_bytes + bound.value_bytes,
    }
    return (
        Result(f"{PRODUCT}, {name}", "s", seconds[PRODUCT], {"backend": PRODUCT, **extra}),
        Result(f"{RIVAL}, {name}", "s", seconds[RIVAL], {"backend": RIVAL, "servers": count}),
    )


def ratios(results: Sequence[Result]) -> list[Ratio]:
    """Time over bound, and the ring's time over ours, for each number of servers."""
    pairs = list(zip(results[::2], results[1::2], strict=True))
    over_bound = [Ratio(f"{ours.name} / bound", ours.median / ours.extra["bound_s"]) for ours, _ in pairs]
    return over_bound + [Ratio(f"{ring.name} / {ours.name}", ring.median / ours.median) for ours, ring in pairs]


def describe(ours: Result) -> str:
    """What was reached of what the linear programme gives."""
    reached_bps = ours.extra["wire_bytes"] * 8 / ours.median
    return (
        f"{ours.name}: {ours.median:.3f} s, bound {ours.extra['bound_s']:.3f} s; {reached_bps / 1e6:.1f} Mbit/s at "
        f"every worker, {reached_bps / ours.extra['planned_bps']:.1%} of the planned rate"
    )


def draw(report: Report, path: Path) -> None:
    """Times by number of servers, with the bounds; errors as for `bars.draw`."""
    ours, rings = report.results[::2], report.results[1::2]
    bars.draw(
        path,
        groups=[result.name.split(", ")[1] for result in ours],
        bars={"Wiresum": [result.median for result in ours], "Gloo's ring": [result.median for result in rings]},
        bounds={"Wiresum": [result.extra["bound_s"] for result in ours]},
        ylabel="all-reduce (s); line: bound",
    )
