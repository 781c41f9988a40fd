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
RULES = ("paper", "slots", "trees")
"""Fields that an instance takes as they are."""
WITHOUT = "wiresum schedule --scheduler events"
"""What makes a timetable without slots."""


def resolve_circuits(file: ScenarioFile, circuits: Circuits, topology: Topology) -> dict[str, Any]:
    """What `crates/sim/src/circuits` reads.

    Raises:
        ScenarioError: a file cannot be read, or workload and topology do not fit; with its line.
    """
    workload = workload_of(file, circuits)
    try:
        rules = {field: getattr(circuits, field) for field in RULES}
        document = instance(topology, workload, circuits.slot_s, **rules)
    except WorkloadError as bad:
        raise file.error(("circuits", "workload"), f"circuits: {bad}") from None
    if circuits.before == "even":
        document["before"] = "even"
    return {
        "instance": document,
        "switch": optical_switches(topology)[0].name,
        "names": [job.name for job in workload.jobs],
        "timetable": None if circuits.timetable is None else _intervals(file, circuits.timetable, circuits.slots),
        "scheduler": circuits.scheduler,
        "options": {"seed": file.scenario.seed, **{field: getattr(circuits, field) for field in OPTIONS}},
        "faults": _faults(file, topology, [unit["name"] for unit in document["units"]]),
    }


def workload_of(file: ScenarioFile, circuits: Circuits) -> Workload:
    """The jobs.

    Raises:
        ScenarioError: their file cannot be read; with its line.
    """
    try:
        workload = Workload.read(file.path.parent / circuits.workload)
    except WorkloadError as bad:
        raise file.error(("circuits", "workload"), f"circuits: {bad}") from None
    return workload.as_batch() if circuits.batch else workload


def _intervals(file: ScenarioFile, name: str, slots: bool) -> Any:
    """What a timetable has, if it has slots where the scenario has some: rates are averages over darkness only then."""
    try:
        timetable = read_json(file.path.parent / name, "timetable", WorkloadError)
        intervals, has_slots = timetable["intervals"], timetable.get("slots", True)
    except (WorkloadError, KeyError, TypeError) as bad:
        problem = f"timetable {name} cannot be read ({bad}); write one by `wiresum schedule --output`"
        raise file.error(("circuits", "timetable"), problem) from None
    if has_slots and not slots:
        problem = f"slots: timetable {name} was made in slots; leave `slots` out, or make one without, by `{WITHOUT}`"
        raise file.error(("circuits", "slots"), problem)
    if slots and not has_slots:
        problem = f"timetable: {name} was made without slots; add `slots = false`, or make one in slots, by `turns`"
        raise file.error(("circuits", "timetable"), problem)
    return intervals


def _faults(file: ScenarioFile, topology: Topology, units: list[str]) -> list[dict[str, Any]]:
    """A failure of a fibre takes a port from its unit; one between two units keeps their new circuits from light."""
    unit_of = {fibre.link.id: fibre.unit for fibre in fibres(topology)}
    faults: list[dict[str, Any]] = []
    for index, failure in enumerate(file.scenario.failure):
        times = {"at_s": failure.at_s, "until_s": failure.until_s}
        if failure.between is not None:
            strange = [unit for unit in failure.between if unit not in units]
            if strange:
                problem = f"between: there is no unit {strange[0]}; there are {', '.join(units[:8])} …"
                raise file.error(("failure", index, "between"), problem)
            faults.append({"what": {"circuit": [units.index(unit) for unit in failure.between]}, **times})
            continue
        if failure.link not in unit_of:
            problem = f"with `circuits`, what fails is a fibre, as {next(iter(unit_of))}; name one by `link`"
            raise file.error(("failure", index), problem)
        faults.append({"what": {"port": units.index(unit_of[failure.link])}, **times})
    return faults
