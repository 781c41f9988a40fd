"""One scenario, three answers: rates, packets and processes, side by side."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wiresum.bench.scenario import live as answers_live
from wiresum.bench.scenario.measured import Direction
from wiresum.errors import DeploymentError, PlanError, ScenarioError, SimulationError, TestbedError, TraceError
from wiresum.plan.choices import Engine
from wiresum.planners.row_plans import predicted
from wiresum.sim import ScenarioFile, SimulationOutcome, run
from wiresum.sim.resolve import LoadTopology, topology_of
from wiresum.sim.rows import planned_rows
from wiresum.sim.scenario import RowsJob

ENGINE: Engine = "udp"
FLOWS, LIVE = "flows", "live"


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
        """Median of the collectives."""
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
    if file.scenario.rows is not None:
        flows = replace(flows, notes=_predicted(file, file.scenario.rows, load))
    packet, outcome = _with_outcome(read({"fidelity": packets}), packets, load)
    answers = [flows, packet]
    if live:
        # Rows are replayed from their trace; other live runs repeat what a simulation has computed.
        repeated = outcome or (SimulationOutcome() if file.scenario.rows else None)
        answers.append(_live(file, load, repeated, engine) if repeated else Answer(LIVE, refusal="nothing to repeat"))
    return answers


def _predicted(file: ScenarioFile, rows: RowsJob, load: LoadTopology) -> list[str]:
    """What the plan of rows says of a round, without a simulation."""
    topology = topology_of(file, load)
    try:
        part = predicted(topology, planned_rows(file, rows, topology).plan, rows.dense_bytes, rows.trace)
    except (PlanError, TraceError) as refused:
        return [f"no prediction: {refused}"]
    return [f"the plan's prediction: {part.seconds:.4f} s a round, by {part.bottleneck}"]


def _live(file: ScenarioFile, load: LoadTopology, outcome: SimulationOutcome, engine: Engine) -> Answer:
    try:
        found = answers_live.measure(file, load, outcome, engine)
    except (TestbedError, DeploymentError) as failed:
        return Answer(LIVE, refusal=str(failed))
    return Answer(LIVE, found.seconds, found.wire_bytes, notes=found.notes)


def _simulated(file: ScenarioFile, name: str, load: LoadTopology) -> Answer:
    return _with_outcome(file, name, load)[0]


def _with_outcome(file: ScenarioFile, name: str, load: LoadTopology) -> tuple[Answer, SimulationOutcome | None]:
    try:
        outcome = run(file, load)
    except (ScenarioError, SimulationError) as refused:
        return Answer(name, refusal=str(refused)), None
    seconds = [second for job in outcome.jobs for second in outcome.seconds_of(job)]
    links = {(link["link"], link["source"], link["target"]): link["wire_bytes"] for link in outcome.links}
    return Answer(name, seconds, links), outcome
