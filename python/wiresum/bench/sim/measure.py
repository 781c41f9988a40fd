"""`wiresum bench sim`: how fast the simulator is at each fidelity, and what memory it takes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.sim import loads
from wiresum.bench.sim import rival as sim_rival
from wiresum.bench.sim.command import Options
from wiresum.errors import SimulationError
from wiresum.sim import ScenarioFile
from wiresum.sim.resolve import LoadTopology, resolve

PACKETS_K = (8, 16)
"""Fat-trees of 128 and of 1,024 hosts."""
PACKETS_JOB_BYTES = 1_000_000
TIME_LIMIT_S = 900.0
"""Limit of one run: more than any takes on a machine that does nothing else, by a factor of ten."""
MEMORY_LOADS = ((4_000_000, 256), (16_000_000, 256), (16_000_000, 2048))
"""Bytes and window of a star: four times as long, then eight times as much in flight."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Case:
    """A load, and what its speed is counted in.

    Attributes:
        load: what is simulated.
        unit: of the result.
        amount: how much of that a run did, from what it said.
        hosts: of the network, for cases of packets.
    """

    load: loads.Load
    unit: str
    amount: Callable[[dict[str, Any]], float]
    hosts: int = 0


def cases(options: Options) -> list[Case]:
    """Everything that is to be measured."""
    made: list[Case] = []
    if "trains" in options.fidelities:
        size = round(loads.MODEL_BYTES * options.scale)
        policies = ("exclusive", "hash", "pool")
        made += [Case(loads.goat_round(p, size), "slot-events/s", lambda end: end["events"]) for p in policies]
    if "packets" in options.fidelities:
        made += [_packets(k, max(round(PACKETS_JOB_BYTES * options.scale), 1)) for k in PACKETS_K]
    if "flows" in options.fidelities:
        rounds = max(round(400 * options.scale), 2)
        made.append(Case(loads.flows_of_256_links(rounds), "recomputations/s", lambda end: end["events"]))
        k, jobs = (32, 100) if options.scale >= 1 else (8, 10)
        made.append(Case(loads.flows_of_a_fat_tree(k, jobs), "recomputations/s", lambda end: end["events"]))
    if "memory" in options.fidelities:
        sizes = [(max(round(size * options.scale), 10_000), window) for size, window in MEMORY_LOADS]
        made += [Case(loads.star_packets(*size), "B", simulator_bytes) for size in sizes]
    return made


def simulator_bytes(run: dict[str, Any]) -> float:
    """Memory that a run took beyond its scenario's text and the interpreter."""
    return float(run["peak_bytes"] - run["before_bytes"])


def _packets(k: int, job_bytes: int) -> Case:
    """Data packets that reached whom they were for: contributions their server, results their workers."""
    hosts = k**3 // 4
    groups = hosts // loads.HOSTS_OF_A_JOB
    fragments = loads.fragments(job_bytes)
    delivered = 2 * groups * (loads.HOSTS_OF_A_JOB - 1) * fragments
    return Case(loads.fat_tree_packets(k, job_bytes), "packets/s", lambda _: delivered, hosts)


def measure(options: Options, load: LoadTopology, progress: Progress = lambda line: None) -> Report:
    """Runs every case, and its rival after it.

    Args:
        options: what to run.
        load: finds topologies.
        progress: is told of each run.

    Raises:
        SimulationError: a run failed, or took too long.
    """
    results: list[Result] = []
    rivals: dict[int, list[float]] = {}
    for case in cases(options):
        runs = []
        for run in _runs(case, options, load):
            runs.append(run)
            if options.htsim and case.hosts:
                rivals.setdefault(case.hosts, []).append(sim_rival.packets_per_second(options.htsim, case.hosts))
            progress(f"{case.load.name}: {run['cpu_s']:.2f} s")
        results.append(to_result(case, runs))
    for hosts, rates in rivals.items():
        results.append(Result(f"csg-htsim, NDP: fat-tree, {hosts:,} hosts", "packets/s", rates, {"hosts": hosts}))
    parameters = {"runs": options.runs, "scale": options.scale, "fidelities": list(options.fidelities)}
    return Report("sim", parameters, results, ratios(results), notes=[describe(one) for one in results])


def _runs(case: Case, options: Options, load: LoadTopology) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="wiresum-sim-") as name:
        folder = Path(name)
        scenario = case.load.write(folder)
        for _ in range(options.runs):
            began_s = time.perf_counter()
            resolved = folder / "resolved.json"
            resolved.write_text(resolve(ScenarioFile.read(scenario), load), encoding="utf-8")
            resolve_s = time.perf_counter() - began_s
            yield {**run_apart(resolved), "resolve_s": resolve_s}
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            kept = "".join(letter if letter.isalnum() else "-" for letter in case.load.name)
            (options.keep / f"{kept}.json").write_text(resolved.read_text(encoding="utf-8"), encoding="utf-8")


def run_apart(resolved: Path) -> dict[str, Any]:
    """A run in a process of its own, whose memory is its own.

    Raises:
        SimulationError: it failed, or took too long.
    """
    command = [sys.executable, "-m", "wiresum.bench.sim.run", str(resolved)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise SimulationError(f"{resolved.name} took more than {TIME_LIMIT_S:.0f} s; use a lower --scale") from None
    except subprocess.CalledProcessError as failed:
        last = failed.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise SimulationError(f"the simulation of {resolved.name} failed: {last[0]}") from None
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def to_result(case: Case, runs: Sequence[dict[str, Any]]) -> Result:
    """Speeds are per second of CPU time: neighbours slow that down too, but less than the clock's."""
    amounts = [case.amount(run) for run in runs]
    speeds = amounts if case.unit == "B" else [a / run["cpu_s"] for a, run in zip(amounts, runs, strict=True)]
    extra = {
        "cpu_s": [run["cpu_s"] for run in runs],
        "wall_s": [run["wall_s"] for run in runs],
        "resolve_s": [run["resolve_s"] for run in runs],
        "virtual_s": runs[0]["at_s"],
        "events": runs[0]["events"],
        "packet_hops": runs[0]["packet_hops"],
        "peak_bytes": max(run["peak_bytes"] for run in runs),
        "simulator_bytes": max(map(simulator_bytes, runs)),
        "hosts": case.hosts,
    }
    return Result(case.load.name, case.unit, speeds, extra)


def ratios(results: Sequence[Result]) -> list[Ratio]:
    """How flat packets are over the network's size, and how many times their rival's."""
    packets = {one.extra["hosts"]: one for one in results if one.name.startswith("packets: fat-tree")}
    rivals = {one.extra["hosts"]: one for one in results if one.name.startswith("csg-htsim")}
    made = []
    if len(packets) > 1:
        few, many = packets[min(packets)], packets[max(packets)]
        made.append(Ratio(f"packets/s, {min(packets)} hosts / {max(packets)} hosts", few.median / many.median))
    for hosts, rival in rivals.items():
        made.append(Ratio(f"packets/s / csg-htsim's, {hosts} hosts", packets[hosts].median / rival.median))
    return made


def describe(result: Result) -> str:
    """What a run took, beside its speed."""
    if "cpu_s" not in result.extra:
        return f"{result.name}: {result.median:,.0f} {result.unit}"
    extra = result.extra
    memory = f"{extra['simulator_bytes'] / 1e6:.1f} MB for the simulator"
    cpu_s, wall_s = min(extra["cpu_s"]), min(extra["wall_s"])
    return f"{result.name}: {cpu_s:.2f} s of CPU, {wall_s:.2f} s, {extra['resolve_s'][0]:.2f} s to resolve; {memory}"
