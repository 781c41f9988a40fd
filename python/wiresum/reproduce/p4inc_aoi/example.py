"""§III, Fig. 2: three jobs in four units; which connections they need without and with sums. Planned and simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wiresum.bench.result import Report, Result
from wiresum.picture import VERMILION, picture
from wiresum.reproduce.p4inc_aoi import printed
from wiresum.reproduce.p4inc_aoi.schemes import Instance, Progress
from wiresum.reproduce.row import Benchmark, Figure, Reports, Row
from wiresum.schedule import schedule
from wiresum.schedule.model import Timetable
from wiresum.schedule.words import added, before
from wiresum.sim.run import run_instance
from wiresum.workload.instance import FORMAT

SLOT_BYTES = 1e9
"""Bytes that a worker's link carries in a slot; a circuit carries two workers."""
PANELS = {"a": (False, False), "b": (True, False), "c": (False, True), "d": (True, True)}
"""Whether jobs 1 and 2 share a unit, and whether switches sum."""


def figure(*, together: bool) -> Instance:
    """Jobs 1 and 2 of two workers have half a slot of bytes, job 3 of four workers a whole one.

    Args:
        together: jobs 1 and 2 are in Unit 1 and job 3 is in Unit 2, as in (b) and (d); else jobs 1 and 2 are in a unit
            each and job 3 is in both.
    """

    def star(number: int, workers: dict[str, int], server: str, share: float) -> dict[str, Any]:
        return {
            "id": number,
            "traffic": {"star": {"workers": workers, "server": server, "bytes": share * SLOT_BYTES}},
        }

    second = star(2, {"Unit 1": 2}, "Unit 3", 0.5) if together else star(2, {"Unit 2": 2}, "Unit 4", 0.5)
    third = {"Unit 2": 4} if together else {"Unit 1": 2, "Unit 2": 2}
    unit = {"ports": 4, "switch_bps": 1e13, "places": 2}
    return {
        "format": FORMAT,
        "slot_s": 1.0,
        "dark_s": 0.0,
        "port_bps": 16 * SLOT_BYTES,
        "host_bps": 8 * SLOT_BYTES,
        "server_bps": 1e13,
        "units": [{"name": f"Unit {number}", **unit} for number in range(1, 5)],
        "jobs": [
            star(1, {"Unit 1": 2}, "Unit 3", 0.5),
            second,
            star(3, third, "Unit 4" if together else "Unit 3", 1.0),
        ],
    }


def planned(panel: str) -> tuple[Instance, Timetable]:
    """The schedule of a panel."""
    together, sums = PANELS[panel]
    instance = figure(together=together)
    return instance, schedule(instance, "turns", sums=sums)


def connections() -> str:
    """All panels, planned and simulated."""
    found, simulated = [], []
    for panel, (_, sums) in PANELS.items():
        instance, timetable = planned(panel)
        found.append((timetable.cost.setups, timetable.cost.reconfigurations))
        documents = [interval.model_dump(exclude_none=True) for interval in timetable.intervals]
        outcome = run_instance(instance, "turns", documents, sums=sums)
        simulated.append(outcome.totals["setups"])
    setups, moments = (", ".join(str(one[index]) for one in found) for index in range(2))
    return (
        f"planned: {setups} connections, {moments} reconfigurations; simulated: {', '.join(map(str, simulated))} "
        "connections set up"
    )


def _measure(quick: bool, progress: Progress) -> Report:
    del quick
    results = []
    for panel in PANELS:
        progress(panel)
        instance, timetable = planned(panel)
        new = {}
        if timetable.intervals:
            new = added(timetable.intervals[0], before(instance))
        known = {"circuits": [[*pair, count] for pair, count in sorted(new.items())]}
        results.append(Result(panel, "connections", [float(timetable.cost.setups)], known))
    return Report("example", {}, results)


def draw(report: Report, path: Path) -> None:
    """The circuits of each panel between the units.

    Raises:
        SupportError: matplotlib is not installed.
    """
    places = {"Unit 1": (0, 1), "Unit 2": (1, 1), "Unit 3": (0, 0), "Unit 4": (1, 0)}
    with picture(path, 1, len(PANELS), figsize=(9.0, 2.8)) as (_, axes):
        for one, result in zip(axes, report.results, strict=True):
            for a, b, count in result.extra["circuits"]:
                xs, ys = zip(places[a], places[b], strict=True)
                for offset in range(count):
                    one.plot([x + 0.06 * offset for x in xs], ys, color=VERMILION)
            for name, (x, y) in places.items():
                one.text(x, y, name, ha="center", va="center", bbox={"boxstyle": "round", "facecolor": "white"})
            one.set(title=f"({result.name}) {result.median:.0f} connections", xlim=(-0.4, 1.4), ylim=(-0.3, 1.3))
            one.axis("off")


def _live(reports: Reports) -> str:
    reports.report("example")
    found = [f"{one.median:.0f}" for one in reports.report("connections").results]
    return f"live, with sums that were checked: {', '.join(found)} connections set up; Fig. 2 drawn again"


def _measure_live(quick: bool, progress: Progress) -> Report:
    from wiresum.reproduce.p4inc_aoi.connections import measure

    return measure(quick, progress)


BENCHMARKS = {
    "example": Benchmark("wiresum reproduce p4inc-aoi --rows A12", 2, 2, _measure, "four units, planned by `turns`"),
    "connections": Benchmark(
        "wiresum reproduce p4inc-aoi --rows A12", 60, 60, _measure_live, "four racks at 20 Mbit/s, circuits at 40"
    ),
}
FIGURES = (Figure("Fig. 2", "fig-2-connections.png", "example", draw),)
ROWS = (
    Row(
        "A12", "connections and reconfigurations of three jobs, without INC (a, b) and with it (c, d)", "A",
        "§III, Fig. 2",
        f"{', '.join(map(str, printed.CONNECTIONS.values()))} connections; "
        f"{', '.join(map(str, printed.RECONFIGURATIONS.values()))} reconfigurations",
        computed=connections, measured=_live, needs=("example", "connections"),
    ),
)  # fmt: skip
