"""Runs one scenario."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wiresum import _native
from wiresum.sim.outcome import Record, SimulationOutcome
from wiresum.sim.resolve import LoadTopology, resolve, topology_of
from wiresum.sim.row_flows import run_row_flows
from wiresum.sim.rows import planned_rows
from wiresum.sim.scenario import DEFAULT_PATIENCE_S
from wiresum.sim.source import ScenarioFile


def run(
    file: ScenarioFile,
    load: LoadTopology,
    heard: Callable[[Record], None] = lambda _: None,
    timeline: bool = False,
) -> SimulationOutcome:
    """Simulates a scenario.

    Args:
        file: the scenario.
        load: finds topologies.
        heard: is told each record as it comes.
        timeline: whether the outcome has loads and slots over time.

    Raises:
        ScenarioError: the scenario names what does not exist.
        SimulationError: the simulation made no progress.
    """
    if file.scenario.rows is not None and file.scenario.fidelity == "flows":
        return run_row_flows(planned_rows(file, file.scenario.rows, topology_of(file, load)))
    return run_resolved(resolve(file, load, timeline), heard)


def run_resolved(resolved: str, heard: Callable[[Record], None] = lambda _: None) -> SimulationOutcome:
    """Simulates what `resolve` made; as `run`, but it needs no files, so it may run on another machine."""
    outcome = SimulationOutcome()

    def take(line: str) -> None:
        record = json.loads(line)
        outcome.take(record)
        heard(record)

    _native.simulate(resolved, take)
    return outcome


def run_instance(
    instance: Mapping[str, Any],
    scheduler: str = "turns",
    timetable: Sequence[Mapping[str, Any]] | None = None,
    **options: Any,
) -> SimulationOutcome:
    """Simulates jobs over optical circuits.

    Args:
        instance: as `spec/schedule.md` describes it.
        scheduler: who is asked at each slot.
        timetable: intervals that are followed instead.
        options: of the scheduler.

    Raises:
        SimulationError: a job is refused, or nothing can carry what is left of it.
    """
    circuits = {
        "instance": instance,
        "switch": "oxc",
        "names": [str(job["id"]) for job in instance["jobs"]],
        "timetable": timetable,
        "scheduler": scheduler,
        "options": options,
    }
    nothing_else: dict[str, Any] = {"sites": [], "links": [], "jobs": []}
    head = {"fidelity": "flows", "seed": 1, "patience_s": DEFAULT_PATIENCE_S, "check_sums": False}
    return run_resolved(json.dumps({**head, **nothing_else, "circuits": circuits}))
