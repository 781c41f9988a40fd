"""`wiresum bench security --switched`: what joins, floods and seals cost in a network of switches.

Method. Two racks of workers below summing switches, a parameter server, and at one of the switches one host more, the
*stranger*, who has no key. *Joins*: all workers say hello at the same moment, each at its own host; the figure is the
time until the last is welcome. *Floods*: the stranger sends hellos without a proof, junk, or packets under another key
to the switch that it is at, beside the job; the figure is what the job sums per second, alone and beside each flood,
turn by turn. *Sealed*: the time and the processor time of a sum, of a job in the open and of one that is sealed, one
network after the other.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.security.command import Options
from wiresum.bench.security.measure import FLOODS
from wiresum.bench.security.member import BEGIN_GRACE_S, HEAD_START_S, Task
from wiresum.bench.service_bed import LOAD_GRACE_S, PORT
from wiresum.bench.workers import view
from wiresum.errors import SettingError, SupportError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import Engine, SwitchEngine, SwitchPolicy
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners.fabrics import plan_switched
from wiresum.testbed import Testbed
from wiresum.topology.generators.racks import racks
from wiresum.topology.model import Topology

HOSTS_PER_RACK = 2
WORKERS = 2 * HOSTS_PER_RACK
STRANGER, SERVER, TARGET = "stranger", "ps", "T2"
"""A host without a key, the parameter server, and the switch that both sums and has the stranger at a port."""
ENGINES = ("xdp", "udp")
PLANNER = "p4inc-aoi"
POLICY: SwitchPolicy = "segment"
FLOAT32_BYTES = 4
FIGURES = (("sum", "s", "seconds"), ("processor time", "s/GB", "cpu"))


def measure(options: Options, progress: Callable[[str], None] = lambda line: None) -> Report:
    """Measures a job at switches, on every engine that they have.

    Args:
        options: what to measure.
        progress: takes a line about what is going on.

    Raises:
        SettingError: switches have none of the engines.
        SupportError: no namespaces, or no XDP.
        TestbedError: a worker failed; the message has the end of its output.
    """
    results: list[Result] = []
    for engine in engines_of(options):
        for name in ("open", "sealed"):
            progress(f"{engine}: workers join, and sum {name}, at switches")
            results += of_job(engine, name, options)
    parameters = {
        "rate_bps": options.rate_bps, "workers": WORKERS, "seconds": options.seconds,
        "size_bytes": options.size_bytes, "runs": options.runs,
    }  # fmt: skip
    return Report("security-switched", parameters, results, ratios(results))


def engines_of(options: Options) -> list[Engine]:
    """Those of the engines that switches have.

    Raises:
        SettingError: there are none.
    """
    engines = [engine for engine in options.engines if engine in ENGINES]
    if not engines:
        raise SettingError(f"--switched: switches have the engines {' and '.join(ENGINES)}; name one with --engines")
    return engines


def of_job(engine: str, name: str, options: Options) -> list[Result]:
    """Joins and sums of one job; of the one in the open also those beside floods."""
    topology = with_stranger(racks(2, hosts_per_rack=HOSTS_PER_RACK, rate_bps=options.rate_bps))
    plan = planned(topology, engine, is_sealed=name == "sealed")
    with Testbed(topology, plan, mtu_bytes=Job().mtu_bytes) as bed:
        if bed.why_loopback:
            raise SupportError(f"this benchmark needs network namespaces: {bed.why_loopback}")
        measured = in_network(bed, plan, FLOODS if name == "open" else FLOODS[:1], options)
    extra = {"engine": engine, "job": name}
    label = f"{engine}: {name}"
    results = [Result(f"{label}: {WORKERS} workers join", "s", measured["joins"], {**extra, "figure": "joins"})]
    per = {"s": 1.0, "s/GB": options.size_bytes / 1e9}
    results += [
        Result(f"{label} {what}", unit, [run / per[unit] for run in measured[key]], {**extra, "figure": key})
        for what, unit, key in FIGURES
    ]
    return results + [
        Result(f"{label}, {flood}" if flood == "alone" else f"{label}, beside {flood}", "sums/s", runs,
               {**extra, "flood": flood})
        for flood, runs in measured["rates"].items()
    ]  # fmt: skip


def planned(topology: Topology, engine: str, *, is_sealed: bool) -> AggregationPlan:
    """The job at the switches of the topology."""
    switches: SwitchEngine = "xdp" if engine == "xdp" else "udp"
    return plan_switched(topology, Job(sealed=is_sealed, window=16), PlanOptions(), PLANNER, POLICY, engine=switches)


def with_stranger(topology: Topology) -> Topology:
    """The topology with addresses, and with a host that no job needs beside the parameter server's."""
    nodes = {node.name: node for node in topology.nodes}
    link = next(link for link in topology.links if link.source == SERVER)
    stranger = nodes[SERVER].model_copy(update={"name": STRANGER, "kind": "aggregator"})
    more = link.model_copy(update={"id": f"{STRANGER}-{TARGET}", "source": STRANGER, "target": TARGET})
    whole = {"nodes": [*topology.nodes, stranger], "links": [*topology.links, more]}
    return topology.model_copy(update=whole).with_addresses()


def in_network(bed: Testbed, plan: AggregationPlan, floods: tuple[str, ...], options: Options) -> dict[str, Any]:
    """What rank 0 has measured, while the stranger floods whenever it says so."""
    file, output = str(bed.folder / "member.json"), str(bed.folder / "measured.json")
    # Workers need the secret, which a plan's file leaves to another one.
    plan.write(file)
    begin_at = time.time() + BEGIN_GRACE_S
    elements = options.size_bytes // FLOAT32_BYTES
    task = Task(file, begin_at, elements, options.runs, options.seconds, list(floods), output)
    strangers: list[subprocess.Popen[bytes]] = []

    def begin(line: str) -> None:
        flood = line.strip().removeprefix("beside ")
        if flood in floods and flood != "alone":
            strangers.append(stranger(bed, plan, flood, options.seconds + 2 * HEAD_START_S))

    try:
        return view(bed, task, show=begin)
    finally:
        for process in strangers:
            process.wait(options.seconds + 2 * HEAD_START_S + LOAD_GRACE_S)


def stranger(bed: Testbed, plan: AggregationPlan, flood: str, seconds: float) -> subprocess.Popen[bytes]:
    """A host without a key floods the switch that it is at."""
    task = {"kind": flood, "job": plan.job.id, "address": bed.address(TARGET), "port": PORT, "seconds": seconds}
    command = [sys.executable, "-m", "wiresum.bench.isolation.load"]
    process = bed.spawn(STRANGER, command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None, "it was started with a pipe"
    process.stdin.write(json.dumps(task).encode())
    process.stdin.close()
    process.stdin = None
    return process


def ratios(results: list[Result]) -> list[Ratio]:
    """What is left of the job beside each flood, and sealed sums over open ones, by engine."""
    of = {(r.extra["engine"], r.extra["job"], r.extra.get("flood", r.extra.get("figure"))): r for r in results}
    beside = [
        Ratio(f"{result.name} / alone", result.median / of[engine, job, "alone"].median)
        for (engine, job, what), result in of.items()
        if what in FLOODS[1:]
    ]
    sealed = [
        Ratio(f"{engine}: sealed {what} / open", statistics.median(of[engine, "sealed", key].runs) / result.median)
        for what, _, key in FIGURES
        for (engine, job, figure), result in of.items()
        if (job, figure) == ("open", key)
    ]
    return beside + sealed
