"""The rates of planners of switch networks, tried out in simulation: no link above its capacity, and the rate reached.

The simulator ends a run in which a link carries more than its rate, so a run that ends well is the proof. Flows are a
fluid over the chosen ways up, which is what InGo's rate is about (Eqs. 39 to 41). Trains are packets through the switch
programs, with results on the same links: what these cost shows in the rate.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from wiresum.bench.result import Report, Result
from wiresum.bench.routing.measure import paper_network
from wiresum.errors import SimulationError
from wiresum.plan.assignment import Instance
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import SWITCH_PLANNERS
from wiresum.planners.comparison import sample_workers
from wiresum.predict.cost import cost_of
from wiresum.sim.outcome import SimulationOutcome
from wiresum.sim.sweep import Point, Sweep
from wiresum.topology.generators.ingo import BETWEEN, ingo
from wiresum.topology.model import Topology

PLANNERS = ("ingo", "r-ingo", "grid")
"""Those that choose ways; of others the network's hashing decides what is reached."""
SIZE_BYTES = 16_000_000
WINDOW, TRAIN = 256, 16
QUEUE_BYTES = 32_000_000
"""Room for the windows of 50 workers."""
TIMEOUT_S = 1.0
"""Nothing is lost; longer than any queue takes."""
MTU_BYTES = 1500
FIDELITIES = ("flows", "trains")
TEXT = f"""format = "wiresum-scenario/1"
topology = "network.json"
train = {TRAIN}
[links]
queue_bytes = {QUEUE_BYTES}
[[job]]
bytes = {SIZE_BYTES}
"""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """What to try out.

    Attributes:
        workers: in the fat-tree; none leaves it out.
        seed: of its links and of the places of workers.
        time_limit_s: of each planner.
    """

    workers: int | None = 50
    seed: int = 1
    time_limit_s: float = 90.0


class Case(NamedTuple):
    """One simulation."""

    network: str
    planner: str
    fidelity: str


def measure(options: Options, progress: Progress = lambda line: None) -> Report:
    """Plans and simulates every network, planner and fidelity on all cores.

    Raises:
        SimulationError: a link carried more than its rate, or a run made no progress.
    """
    networks = dict(_networks(options))
    cases = [Case(name, planner, fidelity) for name in networks for planner in PLANNERS for fidelity in FIDELITIES]
    points = {case: _point(case, *networks[case.network], options) for case in cases}
    with tempfile.TemporaryDirectory() as folder:
        for name, (topology, _) in networks.items():
            topology.write(Path(folder) / f"{name}.json")
        scenario = Path(folder) / "routing.toml"
        scenario.write_text(TEXT, encoding="utf-8")
        sweep = Sweep(scenario, Topology.read, {}, given=list(points.values()), measure=figures)
        found = dict(_told(sweep, progress))
    promised = {
        (name, planner): _promised_bps(networks[name], planner, options) for name in networks for planner in PLANNERS
    }
    results = [
        to_result(case, found[str(point)], promised[case.network, case.planner]) for case, point in points.items()
    ]
    return Report("routing-check", {"workers": options.workers, "seed": options.seed}, results)


def _networks(options: Options) -> Iterator[tuple[str, tuple[Topology, list[str]]]]:
    for shape in BETWEEN:
        made = ingo(shape)  # type: ignore[arg-type]
        yield shape, (made, [worker.name for worker in made.workers])
    if options.workers is not None:
        made = paper_network(options.seed)
        yield "fat-tree", (made, sample_workers(made, options.workers, options.seed))


def _promised_bps(network: tuple[Topology, list[str]], planner: str, options: Options) -> float:
    topology, workers = network
    choices = PlanOptions(seed=options.seed, time_limit_s=options.time_limit_s)
    made = SWITCH_PLANNERS[planner](Instance.of(topology, Job(workers=workers)), choices)
    return cost_of(made, predict=False).sending_rate_bps


def _point(case: Case, topology: Topology, workers: list[str], options: Options) -> Point:
    of_fidelity = {"upload_only": True} if case.fidelity == "flows" else {"program": {"timeout_s": TIMEOUT_S}}
    job = {
        **of_fidelity,
        "planner": case.planner,
        "options": {"seed": options.seed, "time_limit_s": options.time_limit_s},
        "bytes": SIZE_BYTES,
        "window": WINDOW,
        "mtu_bytes": MTU_BYTES,
        "workers": workers,
    }
    return {"topology": f"{case.network}.json", "fidelity": case.fidelity, "job": [job]}


def figures(outcome: SimulationOutcome) -> dict[str, Any]:
    """Figures of a run: bit/s that a worker sent, headers counted, and the busiest direction's share of its rate."""
    sent = [link["wire_bytes"] for link in outcome.links if link["source"].startswith("w") and link["wire_bytes"]]
    return {
        "sent_bps": 8 * min(sent) / (outcome.rounds[0]["end_s"] - outcome.rounds[0]["begin_s"]),
        "busiest": max(outcome.utilisation_of(link) or 0.0 for link in outcome.links),
    }


def _told(sweep: Sweep, progress: Progress) -> Iterator[tuple[str, dict[str, Any]]]:
    for done, result in enumerate(sweep.results(), 1):
        if "error" in result:
            raise SimulationError(f"{result['point']['job'][0]['planner']}: {result['error']}")
        progress(f"{done} runs")
        yield str(result["point"]), result["summary"]


def to_result(case: Case, found: dict[str, Any], promised_bps: float) -> Result:
    """The rate on the wire over the promised one, which knows no headers."""
    extra = {
        "network": case.network, "planner": case.planner, "fidelity": case.fidelity,
        "promised_gbps": promised_bps / 1e9, "busiest": found["busiest"],
    }  # fmt: skip
    return Result(
        f"{case.network}, {case.planner}, {case.fidelity}",
        "of the promised rate",
        [found["sent_bps"] / promised_bps],
        extra,
    )
