"""One scenario, three answers: rates, packets and processes, side by side."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wiresum.bench.answers_task import TOLERANCE, Task
from wiresum.errors import ScenarioError, SimulationError, TestbedError
from wiresum.plan.aggregation_plan import LANE_BYTES, AggregationPlan, Engine
from wiresum.sim import Outcome, ScenarioFile, run
from wiresum.sim.resolve import LoadTopology, topology_and_plans
from wiresum.testbed import Testbed, run_or_fail
from wiresum.testbed.networks import why_no_namespaces

ENGINE: Engine = "udp"
FLOWS, LIVE = "flows", "live"
UNSEEN = ("duplication", "reordering", "jitter_s", "queue_bytes", "ecn_bytes")
"""Conditions of links that a testbed does not make."""

Direction = tuple[str, str, str]
"""Link, source and target."""


@dataclass(frozen=True)
class Answer:
    """What one way of finding out says.

    Attributes:
        name: fidelity of the simulation, or `live`.
        seconds: of each collective, from its first worker's gradients to its last worker's sums.
        wire_bytes: over each direction of each link, headers included.
        refusal: why there is none; empty if there is one.
        notes: what it leaves out.
    """

    name: str
    seconds: Sequence[float] = ()
    wire_bytes: Mapping[Direction, float] = field(default_factory=dict)
    refusal: str = ""
    notes: Sequence[str] = ()

    @property
    def median_s(self) -> float:
        """Of the collectives."""
        return statistics.median(self.seconds)

    @property
    def total_bytes(self) -> float:
        """Over all links, both ways."""
        return sum(self.wire_bytes.values())

    def busiest(self) -> tuple[Direction, float]:
        """The direction that carried most."""
        return max(self.wire_bytes.items(), key=lambda item: item[1])

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        links = [
            {"link": link, "source": source, "target": target, "wire_bytes": bytes}
            for (link, source, target), bytes in self.wire_bytes.items()
        ]
        return {
            "answer": self.name, "seconds": list(self.seconds), "links": links, "refusal": self.refusal or None,
            "notes": list(self.notes),
        }  # fmt: skip


def compare(
    file: ScenarioFile,
    read: Callable[[dict[str, Any]], ScenarioFile],
    load: LoadTopology,
    engine: Engine = ENGINE,
    live: bool = True,
) -> list[Answer]:
    """Asks flows, packets (trains for switch programs) and processes the same.

    Args:
        file: the scenario; flows and packets are asked whatever its fidelity.
        read: reads it again with other values.
        load: finds topologies.
        engine: what sums live.
        live: whether to run it.

    Raises:
        ScenarioError: the scenario is wrong whoever is asked.
    """
    packets = "trains" if file.scenario.fidelity == "trains" else "packets"
    flows = _simulated(read({"fidelity": FLOWS, "check_sums": False}), FLOWS, load)
    packet, outcome = _with_outcome(read({"fidelity": packets}), packets, load)
    answers = [flows, packet]
    if live:
        answers.append(_live(file, load, outcome, engine) if outcome else Answer(LIVE, refusal="nothing to repeat"))
    return answers


def _simulated(file: ScenarioFile, name: str, load: LoadTopology) -> Answer:
    return _with_outcome(file, name, load)[0]


def _with_outcome(file: ScenarioFile, name: str, load: LoadTopology) -> tuple[Answer, Outcome | None]:
    try:
        outcome = run(file, load)
    except (ScenarioError, SimulationError) as refused:
        return Answer(name, refusal=str(refused)), None
    seconds = [second for job in outcome.jobs for second in outcome.seconds_of(job)]
    links = {(link["link"], link["source"], link["target"]): link["wire_bytes"] for link in outcome.links}
    return Answer(name, seconds, links), outcome


def _live(file: ScenarioFile, load: LoadTopology, outcome: Outcome, engine: Engine) -> Answer:
    """The rounds of a simulation, with its computing times, by processes on shaped links."""
    if problem := _why_not_live(file):
        return Answer(LIVE, refusal=problem)
    topology, plans = topology_and_plans(file, load)
    plan, job = _with_engine(plans[0], engine), file.scenario.job[0]
    if file.scenario.links.loss:
        topology = topology.with_loss(file.scenario.links.loss)
    try:
        with Testbed(topology, plan, mtu_bytes=job.mtu_bytes, loss_seed=file.scenario.seed) as bed:
            return _measured(bed, Task(job.bytes // LANE_BYTES, _waits(outcome), ""), _notes(file))
    except TestbedError as failed:
        return Answer(LIVE, refusal=str(failed))


def _why_not_live(file: ScenarioFile) -> str:
    scenario = file.scenario
    if scenario.fidelity == "trains":
        return "switch programs run in simulation only: the testbed's switches are aggregators"
    if len(scenario.job) > 1:
        return "the testbed runs one job at a time; compare each by itself"
    for what in ("background", "failure", "link"):
        if getattr(scenario, what):
            return f"the testbed does not make `{what}`; remove it"
    problem = why_no_namespaces()
    return f"no network namespaces: {problem}" if problem else ""


def _notes(file: ScenarioFile) -> list[str]:
    given = [name for name in UNSEEN if getattr(file.scenario.links, name) is not None]
    return [f"live links leave out {', '.join(given)}"] if given else []


def _with_engine(plan: AggregationPlan, engine: Engine) -> AggregationPlan:
    nodes = [node.model_copy(update={"engine": engine}) for node in plan.nodes]
    return plan.model_copy(update={"nodes": nodes})


def _waits(outcome: Outcome) -> list[list[float]]:
    """By rank: what each worker waited before each round, from the end of the one before."""
    workers: dict[int, list[float]] = {}
    ends: dict[int, float] = {}
    for record in sorted(outcome.workers, key=lambda one: (one["rank"], one["round"])):
        rank = record["rank"]
        # Joining takes time in a simulation too, before the first worker computes.
        since = ends.get(rank, min(one["compute_s"] for one in outcome.workers))
        workers.setdefault(rank, []).append(max(0.0, record["begin_s"] - since))
        ends[rank] = record["end_s"]
    return [workers[rank] for rank in sorted(workers)]


def _measured(bed: Testbed, task: Task, notes: Sequence[str]) -> Answer:
    output = Path(bed.folder) / "answers.json"
    task = Task(task.elements, task.waits_s, str(output))
    command = [sys.executable, "-m", "wiresum.bench.answers_worker", task.to_json()]
    traffic = run_or_fail(bed, command, "the live run").traffic
    found = json.loads(output.read_text())
    if found["deviation"] > TOLERANCE:
        raise TestbedError(f"sums were off by {found['deviation']:.2g} of the largest; please report this scenario")
    rounds = list(zip(*found["spans"], strict=True))
    seconds = [max(end for _, end in spans) - min(begin for begin, _ in spans) for spans in rounds]
    links: dict[Direction, float] = {}
    for link in bed.topology.links:
        seen = traffic[link.id]
        links[link.id, link.source, link.target] = seen.forward.bytes
        links[link.id, link.target, link.source] = seen.backward.bytes
    return Answer(LIVE, seconds, links, notes=notes)
