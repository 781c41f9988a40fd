"""`wiresum bench live`: plans of planners of switch networks, run by processes on shaped links.

Bytes on every link are compared with what the plan predicts, headers counted; the rate with what the busiest direction
of a link leaves the workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wiresum.bench.live.command import Options
from wiresum.bench.live.run import Collective, median_seconds, running
from wiresum.bench.result import Ratio, Report, Result
from wiresum.errors import TestbedError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import SwitchPolicy
from wiresum.plan.job import Job
from wiresum.plan.models import equal_parts
from wiresum.plan.options import PlanOptions
from wiresum.planners.fabrics import plan_switched
from wiresum.predict.link_bytes import link_bytes, sending_rate_bps
from wiresum.topology.generators.goat import goat
from wiresum.topology.generators.ingo import ingo
from wiresum.topology.generators.racks import racks
from wiresum.topology.model import Topology

FLOAT32_BYTES = 4
BITS = 8


@dataclass(frozen=True)
class Case:
    """One live run.

    Attributes:
        name: for people.
        topology: from the rate of its links in bit/s.
        planner: any.
        policy: of the switches; the planner's own where absent.
        parts: sub-models of equal size that are placed.
    """

    name: str
    topology: Callable[[float], Topology]
    planner: str
    policy: SwitchPolicy | None = None
    parts: int = 1


CASES = (
    Case("GOAT's testbed", lambda rate: goat(4, rate_bps=rate), "goat", parts=3),
    Case("GOAT's testbed", lambda rate: goat(4, rate_bps=rate), "atp"),
    Case("P4INC-AOI's racks", lambda rate: racks(rate_bps=rate), "p4inc-aoi"),
    Case("InGo's star", lambda rate: ingo("star", rate), "ingo"),
    Case("InGo's ring", lambda rate: ingo("ring", rate), "ingo"),
    Case("InGo's ring", lambda rate: ingo("ring", rate), "joint"),
    Case("InGo's mesh", lambda rate: ingo("mesh", rate), "ingo"),
    Case("InGo's mesh", lambda rate: ingo("mesh", rate), "grid"),
    Case("InGo's mesh", lambda rate: ingo("mesh", rate), "ps"),
)


def planned(case: Case, options: Options) -> tuple[Topology, AggregationPlan, Job]:
    """What runs."""
    topology = case.topology(options.rate_bps).with_addresses()
    parts = equal_parts("part", options.size_bytes, case.parts)
    job = Job(gradient_bytes=options.size_bytes, sub_models=parts, window=options.window)
    choices = PlanOptions()
    return topology, plan_switched(topology, job, choices, case.planner, case.policy, engine=options.engine), job


def measure(options: Options, progress: Callable[[str], None] = lambda text: None) -> Report:
    """Runs every case in a testbed of its own.

    Args:
        options: what to measure.
        progress: takes the case that is running.

    Raises:
        TestbedError: a worker failed, or a sum is wrong.
    """
    results: list[Result] = []
    ratios: list[Ratio] = []
    notes: list[str] = []
    for case in _chosen(options):
        what = f"{case.name}, {case.planner}"
        progress(what)
        topology, plan, job = planned(case, options)
        elements = options.size_bytes // FLOAT32_BYTES
        with running(topology, plan, job.mtu_bytes) as ranks:
            for _ in range(options.warmups):
                ranks.sum(elements)
            runs = [ranks.sum(elements) for _ in range(options.repeats)]
        rates = {link.id: (options.rate_bps, options.rate_bps) for link in topology.links}
        predicted = sending_rate_bps(plan, rates, elements)
        reached = [BITS * options.size_bytes / run.seconds for run in runs]
        extra = {"predicted": predicted / 1e6, "bytes": _difference(plan, runs, elements)}
        results.append(Result(what, "Mbit/s", [rate / 1e6 for rate in reached], extra))
        median = BITS * options.size_bytes / median_seconds(runs)
        ratios.append(Ratio(f"{what}: measured over predicted rate", median / predicted))
        notes.append(f"{what}: {extra['bytes']}")
    parameters = {
        "rate_bps": options.rate_bps,
        "size_bytes": options.size_bytes,
        "window": options.window,
        "engine": options.engine,
    }
    return Report("live", parameters, results, ratios, notes=notes)


def _chosen(options: Options) -> list[Case]:
    unknown = [name for name in options.cases if name not in {case.name for case in CASES}]
    if unknown:
        known = ", ".join(sorted({case.name for case in CASES}))
        raise TestbedError(f"there is no case {unknown[0]}; there are {known}")
    return [case for case in CASES if not options.cases or case.name in options.cases]


def _difference(plan: AggregationPlan, runs: list[Collective], elements: int) -> str:
    """In words: whether the bytes on links were those that the plan predicts."""
    expected = link_bytes(plan, elements)
    worst = max(
        (abs(seen - wanted) / max(wanted, 1), link)
        for run in runs
        for link, both in run.link_bytes.items()
        for seen, wanted in zip(both, expected[link], strict=True)
    )
    again = runs[-1].repetitions
    sent = "nothing was sent again" if again == 0 else f"{again} contributions were sent again"
    if worst[0] == 0:
        return f"bytes on each link as predicted, to the byte; {sent}"
    return f"bytes on links within {worst[0]:.2%} of the prediction (most at {worst[1]}); {sent}"
