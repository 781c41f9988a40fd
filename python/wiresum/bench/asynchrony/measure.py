"""`wiresum bench asynchrony`: methods of in-network aggregation while workers get more and more out of step.

GOAT's Fig. 16 (§VII-C), with the protocols themselves: every method's switch program runs in simulation, on the same
networks, workers and computing times.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wiresum.bench.asynchrony.command import Options
from wiresum.bench.methods import METHODS, Progress, simulated
from wiresum.bench.result import Report, Result
from wiresum.planners import SWITCH_POLICIES
from wiresum.planners.comparison import sample_workers
from wiresum.predict import predict_ring
from wiresum.registry import spelled
from wiresum.sim.outcome import SimulationOutcome
from wiresum.sim.sweep import Point
from wiresum.topology.generators.leaf_spine import leaf_spine
from wiresum.topology.model import Topology
from wiresum.wire import POLICIES

PARTS = 16
"""Equal sub-models, as in GOAT's public simulation."""
PROGRAMMABLE = 0.25
"""Share of the switches: 5 of 20, as in that simulation."""
WINDOW = 128
"""Packets: what a link of 10 Gbit/s has on its way, in trains of 16 over eight hops."""
TRAIN = 16
URGENCY = 100
"""Urgency of the first job under ESA; each next one is half as urgent."""

SERVER, LINKS, SUMMED, AFTER, ROUNDS = "server", "links", "in network", "after last", "rounds"
QUANTITIES = {
    SERVER: "models into the parameter server, a round",
    LINKS: "models over all links, a round",
    SUMMED: "% of gradients that do not reach the server as such",
    AFTER: "ms from the last worker's gradient to the last worker's sum",
    ROUNDS: "rounds a second",
}
"""What is measured of each run; a model is its bytes on the wire."""

CLOSED_FORMS = ("ring", "byteps")
"""No switch sums: 2 (n − 1)/n of the gradient each way at every worker, after the last one has begun. BytePS with a
server on every worker's host moves as much, its best case."""


@dataclass(frozen=True)
class Case:
    """One run."""

    method: str
    deviation: float
    seed: int


def measure(options: Options, store: Path | None = None, progress: Progress = lambda done, of: None) -> Report:
    """Simulates every method, deviation and seed on all cores.

    Args:
        options: what to simulate.
        store: file with a line for each run; those that are there are not run again.
        progress: is told how many runs have ended, and of how many.

    Raises:
        SimulationError: a run made no progress.
    """
    options = replace(options, methods=options.methods or tuple(METHODS))
    cases = [
        Case(method, deviation, seed)
        for method in options.methods
        for deviation in options.deviations
        for seed in range(1, options.seeds + 1)
    ]
    with tempfile.TemporaryDirectory() as folder:
        networks = {seed: _network(options, seed, Path(folder)) for seed in range(1, options.seeds + 1)}
        points = {case: _point(case, options, networks[case.seed]) for case in cases}
        remark = f"# {options.workers} workers, {options.jobs} jobs, {options.memory_bytes} bytes of memory"
        runs = simulated(
            Path(folder), points, figures, progress,
            model_bytes=options.size_bytes, train=TRAIN, remark=remark, store=store,
        )  # fmt: skip
        rings = {seed: predict_ring(network, options.wire_bytes, _workers(options, network, seed)).seconds
                 for seed, network in networks.items()}  # fmt: skip
    return _report(options, runs, rings)


def figures(outcome: SimulationOutcome) -> dict[str, Any]:
    """What a run says: bytes on the wire and seconds, of all rounds together."""
    ends: dict[str, float] = {}
    computed_s = []
    for record in outcome.rounds:
        computed_s.append(record["last_begin_s"] - ends.get(record["job"], 0.0))
        ends[record["job"]] = record["end_s"]
    return {
        "server_bytes": sum(link["wire_bytes"] for link in outcome.links if link["target"] == "ps"),
        "link_bytes": sum(link["wire_bytes"] for link in outcome.links),
        "computed_s": statistics.fmean(computed_s),
        "after_s": statistics.fmean(record["end_s"] - record["last_begin_s"] for record in outcome.rounds),
        "rounds": len(outcome.rounds),
        "rounds_per_s": sum(1 / end * sum(r["job"] == job for r in outcome.rounds) for job, end in ends.items()),
        "counts": {name: outcome.count(name) for name in ("collision", "evicted", "released", "overlap")},
    }


def _network(options: Options, seed: int, folder: Path) -> Topology:
    """GOAT's leaf-spine (§VII-C), with a job's part of the memory, as planners of one job do not know of others."""
    made = leaf_spine(programmable=PROGRAMMABLE, memory_bytes=options.memory_bytes // options.jobs, seed=seed)
    made.write(folder / f"network{seed}.json")
    return made


def _workers(options: Options, network: Topology, seed: int) -> list[str]:
    return sample_workers(network, options.workers, seed)


def _point(case: Case, options: Options, network: Topology) -> Point:
    workers = _workers(options, network, case.seed)
    jobs = [_job(case, options, number, workers[number :: options.jobs]) for number in range(options.jobs)]
    return {"topology": f"network{case.seed}.json", "seed": case.seed, "job": jobs}


def _job(case: Case, options: Options, number: int, workers: Sequence[str]) -> dict[str, Any]:
    mean_s = options.compute_s
    deviation_s = case.deviation * mean_s
    return {
        "name": f"job{number}",
        "planner": METHODS[case.method].planner,
        "parts": PARTS,
        "bytes": options.size_bytes,
        "rounds": options.rounds,
        "window": WINDOW,
        "mtu_bytes": 1500,
        "workers": list(workers),
        "compute": {"kind": "normal", "mean_s": mean_s, "deviation_s": deviation_s},
        "program": _program(case, options, number, workers),
    }


def _program(case: Case, options: Options, number: int, workers: Sequence[str]) -> dict[str, Any]:
    """A job's part of the memory, or all of it, as the method has it."""
    method, name = METHODS[case.method], SWITCH_POLICIES[spelled(case.method)]
    policy = POLICIES[name]
    slots = max(1, (options.slots * options.jobs if policy.shares_slots else options.slots) // policy.copies)
    return {
        "policy": name,
        "slots": slots,
        "base": 0 if policy.shares_slots else number * slots,
        "memory_slots": max(options.slots * options.jobs // policy.copies, 1),
        "priority": URGENCY >> number,
        "once": method.once,
        "bypass": method.late(workers, case.deviation, case.seed),
    }


def _report(options: Options, runs: Mapping[Case, dict[str, Any]], rings: Mapping[int, float]) -> Report:
    results = [
        _result(method, deviation, quantity, values)
        for method in options.methods
        for deviation in options.deviations
        for quantity, values in _values(options, runs, method, deviation).items()
    ]
    for name in CLOSED_FORMS:
        for deviation in options.deviations:
            results += [_result(name, deviation, quantity, values)
                        for quantity, values in _closed(options, runs, rings, deviation).items()]  # fmt: skip
    parameters = {
        "workers": options.workers, "jobs": options.jobs, "seeds": options.seeds, "rounds": options.rounds,
        "size_bytes": options.size_bytes, "memory_bytes": options.memory_bytes,
    }  # fmt: skip
    return Report("asynchrony", parameters, results, notes=list(_notes(options, runs)))


def _values(
    options: Options, runs: Mapping[Case, dict[str, Any]], method: str, deviation: float
) -> dict[str, list[float]]:
    found = [run for case, run in runs.items() if (case.method, case.deviation) == (method, deviation)]
    models = [run["rounds"] * options.wire_bytes for run in found]
    gradients = options.workers / options.jobs
    return {
        SERVER: [run["server_bytes"] / model for run, model in zip(found, models, strict=True)],
        LINKS: [run["link_bytes"] / model for run, model in zip(found, models, strict=True)],
        SUMMED: [100 * (1 - run["server_bytes"] / model / gradients) for run, model in zip(found, models, strict=True)],
        AFTER: [1e3 * run["after_s"] for run in found],
        ROUNDS: [run["rounds_per_s"] for run in found],
    }


def _closed(
    options: Options, runs: Mapping[Case, dict[str, Any]], rings: Mapping[int, float], deviation: float
) -> dict[str, list[float]]:
    """Rounds of a ring begin after the slowest worker's computing, which is the same for all methods."""
    found = [(case, run) for case, run in runs.items() if case.deviation == deviation]
    computed_s = {case.seed: run["computed_s"] for case, run in found}
    return {
        AFTER: [1e3 * rings[seed] for seed in computed_s],
        ROUNDS: [options.jobs / (rings[seed] + computed) for seed, computed in computed_s.items()],
    }


def _result(method: str, deviation: float, quantity: str, values: list[float]) -> Result:
    extra = {"method": method, "deviation": deviation, "quantity": quantity}
    return Result(f"{method}, σ = {deviation:g}, {quantity}", QUANTITIES[quantity], values, extra)


def _notes(options: Options, runs: Mapping[Case, dict[str, Any]]) -> Iterator[str]:
    """What switches could not sum, at the largest deviation."""
    largest = max(options.deviations)
    for method in options.methods:
        counts = [run["counts"] for case, run in runs.items() if (case.method, case.deviation) == (method, largest)]
        total = {name: sum(count[name] for count in counts) for name in counts[0]}
        said = ", ".join(f"{count:,} {name}" for name, count in total.items() if count)
        yield f"{method} at σ = {largest:g}: {said or 'no packet met another in its slot'}"
