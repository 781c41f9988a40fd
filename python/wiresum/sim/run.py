"""Runs one scenario."""

import json
from collections.abc import Callable

from wiresum import _native
from wiresum.sim.outcome import Outcome, Record
from wiresum.sim.resolve import LoadTopology, resolve
from wiresum.sim.source import ScenarioFile


def run(
    file: ScenarioFile,
    load: LoadTopology,
    heard: Callable[[Record], None] = lambda _: None,
    timeline: bool = False,
) -> Outcome:
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
    return run_resolved(resolve(file, load, timeline), heard)


def run_resolved(resolved: str, heard: Callable[[Record], None] = lambda _: None) -> Outcome:
    """Simulates what `resolve` made; as `run`, but it needs no files, so it may run on another machine."""
    outcome = Outcome()

    def take(line: str) -> None:
        record = json.loads(line)
        outcome.take(record)
        heard(record)

    _native.simulate(resolved, take)
    return outcome
