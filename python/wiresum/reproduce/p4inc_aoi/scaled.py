"""§VII-B live at 1:800: 40 Gbit/s are 50 Mbit/s and 528 MB are 660 kB, so all times stay the paper's.

Ranks are processes in namespaces, which sleep instead of computing and check every sum; circuits are those of an
emulated optical switch. A server's link has the fitted rate of its host. Turns are decided slot by slot.
"""

from __future__ import annotations

import statistics
from typing import Any

from wiresum.bench.result import Report, Result
from wiresum.reproduce.p4inc_aoi import printed, testbed, throughput
from wiresum.reproduce.p4inc_aoi.schemes import SCHEMES, SETUPS, Instance, Progress, Scheme
from wiresum.schedule import schedule
from wiresum.sim.run import run_instance
from wiresum.topology.generators.optical import optical
from wiresum.topology.model import Topology
from wiresum.turns.live import TurnsBed, run_ranks
from wiresum.turns.online import Online
from wiresum.turns.plans import GOODPUT, as_schedule, carried, step_of
from wiresum.workload.instance import instance as instance_of
from wiresum.workload.model import Workload

SCALE = 800
RATE_BPS = throughput.LINK_BPS / SCALE
JOBS, QUICK_JOBS, SEED = (10, 20), (10,), 1
ITERATIONS = 8
"""Iterations of a job whose throughput is measured."""
UNITS = {name: f"u{index}" for index, name in enumerate((*testbed.GPU_RACKS, *testbed.CPU_RACKS))}


def measure_throughput(quick: bool, progress: Progress) -> Report:
    """Throughput of each model with sums in the switch over that without.

    Raises:
        TestbedError: there are no namespaces, or a sum was wrong.
    """
    results = []
    for model in printed.NAMES if quick else printed.SPEEDUPS:
        progress(f"{model}, live")
        with_sums, without = (iteration_s(model, sums=sums) for sums in (True, False))
        results.append(Result(model, "×", [without / with_sums]))
    return Report("scaled-throughput", {"scale": SCALE, "iterations": ITERATIONS}, results)


def iteration_s(model: str, *, sums: bool) -> float:
    """Seconds of an iteration of two workers whose server is in another unit: the median of all.

    Args:
        model: its name.
        sums: whether the switch of the workers sums.
    """
    topology = optical(2, throughput.WORKERS, 1, ports=1, rate_bps=RATE_BPS, dark_s=testbed.DARK_S)
    job = {
        "name": "job",
        "workers": {"u0": throughput.WORKERS},
        "server": "u1",
        "bytes": round(throughput.model_bytes(model) / SCALE),
        "iterations": ITERATIONS,
        "compute_s": throughput.fit().compute_s(model),
    }
    workload = Workload.model_validate({"name": model, "jobs": [job]})
    timetable = schedule(carried(instance_of(topology, workload, testbed.SLOT_S), workload), sums=sums)
    made = as_schedule(timetable, topology, workload)
    whole = made.intervals[0].model_copy(update={"until_s": None, "rates_bps": {}})
    with TurnsBed(slow_servers(topology), made.model_copy(update={"intervals": [whole]})) as bed:
        _, sums_of = run_ranks(bed, workload)
    slowest: dict[float, float] = {}
    for one in sums_of[1]:
        slowest[one["step"]] = max(one["seconds"], slowest.get(one["step"], 0.0))
    return workload.jobs[0].compute_s + statistics.median(slowest.values())


def measure_jobs(quick: bool, progress: Progress) -> Report:
    """Set-ups and total JCT of all schemes, live and simulated.

    Raises:
        TestbedError: there are no namespaces, or a sum was wrong.
    """
    results = []
    for model, name in list(printed.NAMES.items())[-1 if quick else 0 :]:
        for jobs in QUICK_JOBS if quick else JOBS:
            for scheme, by in SCHEMES.items():
                progress(f"{name}, {jobs} jobs, {scheme}, live")
                live, simulated = run(model, jobs, by), simulate(model, jobs, by)
                for what, unit in ((SETUPS, SETUPS), (testbed.JCT, "s")):
                    known = {"scheme": scheme, "case": f"{name} {jobs}", "what": what, "simulated": simulated[what]}
                    results.append(Result(f"{scheme}, {name} {jobs}: {what}", unit, [live[what]], known))
    return Report("scaled-testbed", {"scale": SCALE, "iterations": testbed.ITERATIONS, "seed": SEED}, results)


def run(model: str, jobs: int, by: Scheme) -> dict[str, float]:
    """Set-ups and total JCT of jobs that come at random, whose turns a scheduler decides slot by slot, live.

    Args:
        model: of all jobs.
        jobs: how many come.
        by: who decides, and whether switches sum.
    """
    instance = scaled(testbed.instance(model, jobs, SEED, by.sums), model, sums=by.sums)
    workload = workload_of(instance, model)
    topology = optical(
        len(UNITS), testbed.SERVERS, testbed.SERVERS, ports=testbed.PORTS, rate_bps=RATE_BPS, dark_s=testbed.DARK_S,
        places=testbed.PLACES if by.sums else 0,
    )  # fmt: skip
    online = Online.of(slow_servers(topology), workload, instance, by.scheduler)
    with TurnsBed(online.topology, online) as bed:
        live, _ = run_ranks(bed, workload)
    total_s = sum(turn.end_s for turn in live.seen.turns.values()) - sum(job.arrival_s for job in workload.jobs)
    return {SETUPS: float(live.seen.setups), testbed.JCT: total_s}


def simulate(model: str, jobs: int, by: Scheme) -> dict[str, float]:
    """As `run`, as flows."""
    instance = scaled(testbed.instance(model, jobs, SEED, by.sums), model, sums=by.sums)
    outcome = run_instance(instance, by.scheduler, sums=by.sums, **{**by.options, **step_of(instance)})
    total_s = sum(record["end_s"] - record["begin_s"] for record in outcome.rounds)
    return {SETUPS: float(outcome.totals["setups"]), testbed.JCT: total_s}


def workload_of(instance: Instance, model: str) -> Workload:
    """The jobs of a scaled instance, whose bytes are those of all iterations together."""
    compute_s = throughput.fit().compute_s(model)
    jobs = [
        {
            "name": f"job-{job['id']}",
            "arrival_s": job["arrival_s"],
            "workers": job["traffic"]["star"]["workers"],
            "server": job["traffic"]["star"]["server"],
            "bytes": round(job["traffic"]["star"]["bytes"] / testbed.ITERATIONS),
            "iterations": testbed.ITERATIONS,
            "compute_s": compute_s,
        }
        for job in instance["jobs"]
    ]
    return Workload.model_validate({"name": model, "jobs": jobs})


def scaled(papers: Instance, model: str, *, sums: bool) -> Instance:
    """The paper's instance with the rates, bytes and names of the network that is run, where headers have their part.

    Args:
        papers: with the paper's rates.
        model: of all jobs.
        sums: whether switches sum.
    """
    compute_s = testbed.ITERATIONS * throughput.fit().compute_s(model)

    def star_of(star: dict[str, Any]) -> dict[str, Any]:
        bits = 8 * star["bytes"] / SCALE
        sending_s = (8 * star["bytes"] / star["host_bps"] - compute_s) / GOODPUT
        workers = {UNITS[unit]: count for unit, count in star["workers"].items()}
        there = {"workers": workers, "server": UNITS[star["server"]]}
        return {**there, "bytes": round(bits / 8), "host_bps": bits / (compute_s + sending_s)}

    def unit_of(unit: dict[str, Any]) -> dict[str, Any]:
        places = unit["places"] if sums else 0
        return {**unit, "name": UNITS[unit["name"]], "switch_bps": unit["switch_bps"] / SCALE, "places": places}

    rates = {key: papers[key] / SCALE for key in ("port_bps", "host_bps", "server_bps")}
    jobs = [{**job, "traffic": {"star": star_of(job["traffic"]["star"])}} for job in papers["jobs"]]
    return carried({**papers, **rates, "units": list(map(unit_of, papers["units"])), "jobs": jobs})


def slow_servers(topology: Topology) -> Topology:
    """The network with the fitted rate of a server's host on the links of servers."""
    servers = {node.name for node in topology.nodes if node.kind == "ps"}
    rate_bps = throughput.fit().host_bps / SCALE
    links = [
        link.model_copy(update={"bandwidth_bps": rate_bps}) if {link.source, link.target} & servers else link
        for link in topology.links
    ]
    return topology.model_copy(update={"links": links})
