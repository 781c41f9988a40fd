"""Whole jobs in virtual time: scenarios, runs and sweeps. `docs/simulator.md` is the prose of this package."""

from wiresum.sim.outcome import SimulationOutcome
from wiresum.sim.run import run
from wiresum.sim.scenario import Scenario
from wiresum.sim.source import ScenarioFile

__all__ = ["Scenario", "ScenarioFile", "SimulationOutcome", "run"]
