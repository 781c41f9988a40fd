"""§III, Fig. 2, live: the schedule of each panel over an emulated optical switch, by ranks that check every sum."""

from __future__ import annotations

from wiresum.bench.result import Report, Result
from wiresum.reproduce.p4inc_aoi import example
from wiresum.reproduce.p4inc_aoi.schemes import Instance, Progress
from wiresum.schedule.model import Interval, Timetable
from wiresum.topology.generators.optical import optical
from wiresum.turns.live import TurnsBed, run_ranks
from wiresum.turns.plans import as_schedule
from wiresum.workload.model import Workload

HOST_BPS = 20e6
"""Rate of a worker's link; a circuit carries two workers, as in the figure."""
GOODPUT_BPS = 0.9 * HOST_BPS
"""Rate of gradients, so that headers have room in a slot."""
HOSTS, PORTS, DARK_S = 4, 4, 0.02


def measure(quick: bool, progress: Progress) -> Report:
    """Connections that each panel's jobs have needed.

    Raises:
        TestbedError: there are no namespaces, or a sum was wrong.
    """
    del quick
    results = []
    for panel in example.PANELS:
        progress(f"({panel})")
        instance, timetable = example.planned(panel)
        results.append(Result(panel, "connections", [float(_setups(instance, timetable))]))
    return Report("connections", {"host_bps": HOST_BPS}, results)


def _setups(instance: Instance, timetable: Timetable) -> int:
    units = [unit["name"] for unit in instance["units"]]
    names = {name: f"u{index}" for index, name in enumerate(units)}
    topology = optical(
        len(units), HOSTS, 1, ports=PORTS, rate_bps=HOST_BPS, circuit_rate_bps=2 * HOST_BPS, dark_s=DARK_S
    )
    workload = _workload(instance, names)
    intervals = [
        _scaled(interval, names, GOODPUT_BPS / float(instance["host_bps"])) for interval in timetable.intervals
    ]
    scaled = timetable.model_copy(update={"intervals": intervals})
    with TurnsBed(topology, as_schedule(scaled, topology, workload)) as bed:
        return run_ranks(bed, workload)[0].seen.setups


def _workload(instance: Instance, names: dict[str, str]) -> Workload:
    scale = GOODPUT_BPS / float(instance["host_bps"])
    jobs = []
    for job in instance["jobs"]:
        star = job["traffic"]["star"]
        workers = {names[unit]: count for unit, count in star["workers"].items()}
        size = int(star["bytes"] * scale)
        jobs.append({"name": f"job-{job['id']}", "workers": workers, "server": names[star["server"]], "bytes": size})
    return Workload.model_validate({"name": "fig-2", "jobs": jobs})


def _scaled(interval: Interval, names: dict[str, str], scale: float) -> Interval:
    circuits = [one.model_copy(update={"between": [names[unit] for unit in one.between]}) for one in interval.circuits]
    rates = [rate.model_copy(update={"rate_bps": rate.rate_bps * scale}) for rate in interval.rates]
    return interval.model_copy(update={"circuits": circuits, "rates": rates})
