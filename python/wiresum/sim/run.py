"""Runs one scenario."""

import json
from collections.abc import Callable

from wiresum import _native
from wiresum.sim.outcome import Outcome, Record
from wiresum.sim.resolve import LoadTopology, resolve
from wiresum.sim.source import ScenarioFile


def run(file: ScenarioFile, load: LoadTopology, heard: Callable[[Record], None] = lambda _: None) -> Outcome:
    """Simulates a scenario.

    Args:
        file: the scenario.
        load: finds topologies.
        heard: is told each record as it comes.

    Raises:
        ScenarioError: the scenario names what does not exist.
        SimulationError: the simulation made no progress.
    """
    outcome = Outcome()

    def take(line: str) -> None:
        record = json.loads(line)
        outcome.take(record)
        heard(record)

    _native.simulate(resolve(file, load), take)
    return outcome
