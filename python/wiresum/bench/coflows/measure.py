"""`wiresum bench coflows`: one batch against the ports' bound, arrivals by mean, and single matrices."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from wiresum.bench.coflows.command import Options
from wiresum.bench.coflows.matrices import KINDS, matrix
from wiresum.bench.coflows.trace import read
from wiresum.bench.result import Ratio, Report, Result
from wiresum.errors import ScheduleError
from wiresum.schedule import schedule
from wiresum.topology.generators.optical import optical
from wiresum.workload.instance import instance

Progress = Callable[[str], None]

PORTS = (4, 24)
SLOT_S = 0.1
SPLITTERS = ("spectra", "solstice", "eclipse")
"""Who splits one matrix into matchings."""
MATRIX_UNITS, MATRIX_PORTS = 16, 4
DARK_S = (1e-5, 1e-3, 1e-2, 1e-1)
LEAST_SLOT_S, DARK_SLOTS = 0.02, 2
"""Slots for matrices: at least so long, and so many times as long as a new circuit is dark."""
BITS = 8
NOTHING = 1e-9
"""Relative difference of times that are equal."""
BATCH: dict[str, dict[str, Any]] = {
    "turns": {}, "sunflow": {}, "k-core": {}, "matching": {}, "window": {}, "fcfs": {}, "varys": {}, "sincronia": {},
    "solstice": {}, "eclipse": {}, "spectra": {}, "fullest": {},
}  # fmt: skip
ARRIVING: dict[str, dict[str, Any]] = {
    "turns": {"online": True, "objective": "mean"},
    "sunflow": {},
    "k-core": {},
    "varys": {},
    "sincronia": {},
}


def measure(options: Options, progress: Progress) -> Report:
    """Schedules the coflows by everybody, on few and on many ports."""
    results: list[Result] = []
    ratios: list[Ratio] = []
    source = ""
    for ports in PORTS:
        # As many hosts as ports, so that switches pass what circuits carry.
        network = optical(options.units, max(PORTS), ports=ports)
        source, workload = read(options.data_dir, [node.name for node in network.nodes if node.kind == "switch"])
        chosen = workload.model_copy(update={"jobs": workload.jobs[: options.coflows]})
        batch, arriving = (instance(network, jobs, SLOT_S) for jobs in (chosen.as_batch(), chosen))
        bound_s = ports_bound_s(batch)
        progress(f"{ports} ports: one batch")
        for name, known in BATCH.items():
            results += _one(f"{ports} ports, batch, {name}", batch, name, known, lambda cost: cost.completion_s)
        progress(f"{ports} ports: with arrivals")
        for name, known in ARRIVING.items():
            results += _one(f"{ports} ports, arrivals, {name}", arriving, name, known, lambda cost: cost.sojourn_s.mean)
        ratios += _ratios(ports, bound_s, {one.name: one.median for one in results})
    progress("matrices")
    results, ratios = results + (found := _matrices(options)), ratios + _matrix_ratios(found)
    parameters = {"coflows": options.coflows, "units": options.units, "slot_s": SLOT_S, "source": source}
    return Report("coflows", parameters, results, ratios, notes=["who is not there found no way for a coflow"])


def _matrices(options: Options) -> list[Result]:
    """Completion of one matrix, by everybody who splits such and `turns`; a value for each seed."""
    units = min(options.units, MATRIX_UNITS)
    results = []
    for kind in KINDS:
        for dark_s in DARK_S:
            for name in ("turns", *SPLITTERS):
                slot_s = max(LEAST_SLOT_S, DARK_SLOTS * dark_s)
                asked = [
                    matrix(kind, units, MATRIX_PORTS, dark_s=dark_s, slot_s=slot_s, seed=seed)
                    for seed in range(options.matrices)
                ]
                ends = [schedule(one, name, bound=False).cost.completion_s for one in asked]
                results.append(Result(f"matrix {kind}, {dark_s:g} s dark, {name}", "s", ends))
    return results


def _matrix_ratios(results: list[Result]) -> list[Ratio]:
    """How often, and by how much, `turns` is faster."""
    ends = {one.name: one.runs for one in results}
    ratios = []
    for rival in SPLITTERS:
        pairs = [
            (ours, theirs)
            for name, values in ends.items()
            if name.endswith(", turns")
            for ours, theirs in zip(values, ends[name.removesuffix("turns") + rival], strict=True)
        ]
        wins = [ours <= theirs * (1 + NOTHING) for ours, theirs in pairs]
        ratios.append(Ratio(f"matrices, share in which turns is not after {rival}", statistics.mean(wins)))
        mean = statistics.geometric_mean(ours / theirs for ours, theirs in pairs)
        ratios.append(Ratio(f"matrices, completion of turns over that of {rival}: mean", mean))
    return ratios


def ports_bound_s(document: Mapping[str, Any]) -> float:
    """Seconds that the busiest unit's ports need for its bytes to or from others."""
    loads: dict[tuple[str, str], float] = defaultdict(float)
    for job in document["jobs"]:
        for flow in job["traffic"]["flows"]:
            if flow["from"] != flow["to"]:
                loads[flow["from"], "out"] += flow["bytes"]
                loads[flow["to"], "in"] += flow["bytes"]
    ports: dict[str, int] = {unit["name"]: unit["ports"] for unit in document["units"]}
    port_bps = float(document["port_bps"])
    return max(BITS * sent / (ports[unit] * port_bps) for (unit, _), sent in loads.items())


def _one(
    label: str, document: dict[str, Any], name: str, known: dict[str, Any], seconds: Callable[[Any], float]
) -> list[Result]:
    began_s = time.process_time()
    try:
        cost = schedule(document, name, bound=False, **known).cost
    except ScheduleError:
        return []
    took_s = time.process_time() - began_s
    return [Result(label, "s", [seconds(cost)], {"setups": cost.setups, "cpu_s": took_s})]


def _ratios(ports: int, bound_s: float, found: dict[str, float]) -> list[Ratio]:
    batch = {name: found.get(f"{ports} ports, batch, {name}") for name in BATCH}
    ratios = [
        Ratio(f"{ports} ports, batch, {name}: completion over the ports' bound", value / bound_s)
        for name, value in batch.items()
        if value is not None
    ]
    ours = found.get(f"{ports} ports, arrivals, turns")
    for name in ARRIVING:
        theirs = found.get(f"{ports} ports, arrivals, {name}")
        if ours is not None and theirs is not None and name != "turns":
            ratios.append(
                Ratio(f"{ports} ports, arrivals: mean completion of turns over that of {name}", ours / theirs)
            )
    return ratios
