"""From a scenario with circuits to what the simulator runs: an instance of schedulers, and ports that fail."""

from __future__ import annotations

from typing import Any

from wiresum.document import read_json
from wiresum.errors import WorkloadError
from wiresum.sim.scenario import Circuits
from wiresum.sim.source import ScenarioFile
from wiresum.topology.circuits import fibres, optical_switches
from wiresum.topology.model import Topology
from wiresum.workload.instance import instance
from wiresum.workload.model import Workload

OPTIONS = ("sums", "step_bps", "blocking", "keep_circuits")
"""Fields that schedulers take as they are."""


def resolve_circuits(file: ScenarioFile, circuits: Circuits, topology: Topology) -> dict[str, Any]:
    """What `crates/sim/src/circuits` reads.

    Raises:
        ScenarioError: a file cannot be read, or workload and topology do not fit; with its line.
    """
    try:
        workload = Workload.read(file.path.parent / circuits.workload)
        workload = workload.as_batch() if circuits.batch else workload
        document = instance(topology, workload, circuits.slot_s, paper=circuits.paper)
    except WorkloadError as bad:
        raise file.error(("circuits", "workload"), f"circuits: {bad}") from None
    if circuits.before == "even":
        document["before"] = "even"
    return {
        "instance": document,
        "switch": optical_switches(topology)[0].name,
        "names": [job.name for job in workload.jobs],
        "timetable": None if circuits.timetable is None else _intervals(file, circuits.timetable),
        "scheduler": circuits.scheduler,
        "options": {"seed": file.scenario.seed, **{field: getattr(circuits, field) for field in OPTIONS}},
        "faults": _faults(file, topology, [unit["name"] for unit in document["units"]]),
    }


def _intervals(file: ScenarioFile, name: str) -> Any:
    try:
        return read_json(file.path.parent / name, "timetable", WorkloadError)["intervals"]
    except (WorkloadError, KeyError, TypeError) as bad:
        problem = f"timetable {name} cannot be read ({bad}); write one by `wiresum schedule --output`"
        raise file.error(("circuits", "timetable"), problem) from None


def _faults(file: ScenarioFile, topology: Topology, units: list[str]) -> list[dict[str, Any]]:
    """A failure of a fibre takes a port from its unit."""
    unit_of = {fibre.link.id: fibre.unit for fibre in fibres(topology)}
    faults = []
    for index, failure in enumerate(file.scenario.failure):
        if failure.link not in unit_of:
            problem = f"with `circuits`, what fails is a fibre, as {next(iter(unit_of))}; name one by `link`"
            raise file.error(("failure", index), problem)
        unit = units.index(unit_of[failure.link])
        faults.append({"unit": unit, "at_s": failure.at_s, "until_s": failure.until_s})
    return faults
