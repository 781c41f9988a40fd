"""`wiresum bench loss`: an all-reduce over links that lose packets, beside Gloo's ring over TCP on the same links.

Every link of the topology loses the same fraction in each direction, up to the workers as between the nodes. Sums are
compared with Gloo's in every run; one that differs by more than rounding ends the benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from wiresum.bench.allreduce.worker import Task
from wiresum.bench.loss.command import Options
from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.workers import view
from wiresum.errors import TestbedError
from wiresum.picture import picture
from wiresum.plan.choices import Engine, Policy
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Topology

FLOAT32_BYTES = 4
BITS = 8
TOPOLOGIES: dict[str, Callable[[], Topology]] = {"star": star, "xagg": xagg}
"""Four workers at 500 Mbit/s around a switch that sums; XAgg's tree of three servers at 1:100."""
ROUNDING = 1e-5
"""Error of a sum of a few values below 1 in float32 and in blocks of 32-bit lanes; a lost or doubled contribution is
some hundred thousand times as much."""
PRODUCT = "wiresum"
RIVAL = "gloo"
PICTURE = "loss.png"


@dataclass(frozen=True)
class Case:
    """One testbed.

    Attributes:
        topology: its name.
        loss: fraction of the packets.
        engine: what sums.
        policy: slot policy.
        has_rival: the rival runs in the same processes, turn by turn.
    """

    topology: str
    loss: float
    engine: Engine
    policy: Policy
    has_rival: bool

    def name(self, backend: str) -> str:
        """What the figure is about."""
        how = f"{self.engine} {self.policy}" if backend == PRODUCT else "ring over TCP"
        return f"{self.topology}, {100 * self.loss:g} %: {backend} {how}"


def cases(options: Options) -> Iterator[Case]:
    """Every case; the first one of a topology and loss has the rival beside it."""
    for topology, loss in product(options.topologies, options.losses):
        for index, (engine, policy) in enumerate(product(options.engines, options.policies)):
            yield Case(topology, loss, engine, policy, has_rival=index == 0)


def measure(options: Options, progress: Callable[[str], None] = lambda text: None) -> Report:
    """Runs every case in a testbed of its own.

    Args:
        options: what to measure.
        progress: takes the case that is running.

    Raises:
        TestbedError: a worker failed, or a sum is wrong.
    """
    results: list[Result] = []
    for case in cases(options):
        progress(case.name(PRODUCT))
        results += to_results(options, case, run(options, case))
    parameters = {
        "size_bytes": options.size_bytes,
        "seed": options.seed,
        "loss": "the same on every link, each way",
    }
    return Report("loss", parameters, results, ratios(results), notes=[f"sums equal Gloo's up to {ROUNDING:g}"])


def run(options: Options, case: Case) -> dict[str, Any]:
    """Times of one case by backend, as rank 0 wrote them, and what the links lost."""
    topology = TOPOLOGIES[case.topology]().with_loss(case.loss)
    job = Job(policy=case.policy, gradient_bytes=options.size_bytes)
    placed = plan(topology, job, PlanOptions(engine=case.engine))
    with Testbed(topology, placed, mtu_bytes=job.mtu_bytes, loopback=False, loss_seed=options.seed) as bed:
        backends = [PRODUCT, RIVAL] if case.has_rival else [PRODUCT]
        output = str(bed.folder / "loss.json")
        task = Task(backends, options.size_bytes // FLOAT32_BYTES, options.repeats, options.warmups, output)
        measured = view(bed, task, case.name(PRODUCT))
        measured["lost"] = [count for both in bed.link_losses().values() for count in both if count]
        measured["transmitters"] = {
            node: counters.get("transmitter", {}) for node, counters in bed.deployment.stop().items()
        }
    return measured


def to_results(options: Options, case: Case, measured: dict[str, Any]) -> list[Result]:
    """Throughput of each backend in bit/s of gradient.

    Raises:
        TestbedError: a sum differs from Gloo's by more than rounding.
    """
    worst = max(measured["errors"].values())
    if not worst <= ROUNDING:
        raise TestbedError(f"{case.name(PRODUCT)}: a sum is off by {worst:g}; please report this with the seed")
    packets = sum(count.packets for count in measured["lost"])
    extra = {
        "topology": case.topology,
        "loss": case.loss,
        "measured_loss": sum(count.lost for count in measured["lost"]) / packets if packets else 0.0,
        "sums_again": sum(counters.get("sent_again", 0) for counters in measured["transmitters"].values()),
    }
    return [
        Result(
            case.name(backend),
            "Mbit/s",
            [options.size_bytes * BITS / 1e6 / seconds for seconds in runs],
            {**extra, "line": f"{backend} {case.engine} {case.policy}" if backend == PRODUCT else backend},
        )
        for backend, runs in measured["seconds"].items()
    ]


def ratios(results: list[Result]) -> list[Ratio]:
    """Each line's throughput over the one without loss on the same topology."""
    clean = {(r.extra["topology"], r.extra["line"]): r.median for r in results if not r.extra["loss"]}
    lossy = [r for r in results if r.extra["loss"] and (r.extra["topology"], r.extra["line"]) in clean]
    return [Ratio(f"{r.name} / without loss", r.median / clean[r.extra["topology"], r.extra["line"]]) for r in lossy]


def draw(report: Report, folder: Path) -> Path:
    """Throughput over loss, one picture for each topology side by side.

    Raises:
        SupportError: matplotlib is not installed.
    """
    names = list(dict.fromkeys(str(result.extra["topology"]) for result in report.results))
    path = folder / PICTURE
    with picture(path, 1, len(names), squeeze=False, figsize=(5 * len(names), 4)) as (_, pictures):
        for axes, name in zip(pictures[0], names, strict=True):
            lines: dict[str, list[tuple[float, float]]] = {}
            for result in (result for result in report.results if result.extra["topology"] == name):
                lines.setdefault(str(result.extra["line"]), []).append((100 * result.extra["loss"], result.median))
            for line, points in lines.items():
                axes.plot([x for x, _ in points], [y for _, y in points], marker="o", label=line)
            axes.set(title=name, xlabel="% lost on each link", ylabel="Mbit/s of gradient")
            axes.set_xscale("symlog", linthresh=1e-2)
            axes.set_ylim(bottom=0)
            axes.legend()
    return path
