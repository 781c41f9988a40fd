"""`wiresum bench allreduce`: a tensor through `torch.distributed.all_reduce`, beside its rivals and the wire limit."""

from __future__ import annotations

from typing import Any

from wiresum import wire
from wiresum.bench.allreduce.command import Options
from wiresum.bench.allreduce.worker import Task
from wiresum.bench.baselines import BASELINES
from wiresum.bench.limit import StarTraffic
from wiresum.bench.result import Limit, Ratio, Report, Result
from wiresum.bench.workers import view
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed
from wiresum.topology.generators.star import star

FLOAT32_BYTES = 4
PRODUCT = "wiresum"


def measure(options: Options) -> Report:
    """Sets up the links, runs every backend in turn in the same processes, and takes the links down.

    Args:
        options: what to measure.

    Raises:
        TestbedError: a worker failed; the message has the end of its output.
    """
    topology = star(options.workers, options.rate_bps)
    job = job_of(options)
    made = plan(topology, job, PlanOptions(engine=options.engine))
    with Testbed(topology, made, mtu_bytes=options.mtu_bytes, node_threads=options.node_threads) as bed:
        measured = run_workers(bed, options)
        notes = [*bed.left_out, *str(measured["report"]).splitlines()]
        shaped = not bed.why_loopback
    return to_report(options, job, measured, notes, shaped)


def job_of(options: Options) -> Job:
    """The job that the planner is asked to place."""
    return Job(
        mtu_bytes=options.mtu_bytes,
        jumbo=options.jumbo,
        lanes=options.lanes,
        policy=options.policy,
        gradient_bytes=max(options.size_bytes, FLOAT32_BYTES),
        window=options.window,
        threads=options.threads,
    )


def run_workers(bed: Testbed, options: Options) -> dict[str, Any]:
    """Runs one process per worker and returns what rank 0 wrote."""
    servers = {name: BASELINES[name].start(bed) for name in options.against if name in BASELINES}
    backends = [PRODUCT, *(name for name in options.against if name not in BASELINES)]
    output = str(bed.folder / "allreduce.json")
    task = Task(backends, options.size_bytes // FLOAT32_BYTES, options.repeats, options.warmups, output, servers)
    return view(bed, task)


def to_report(options: Options, job: Job, measured: dict[str, Any], notes: list[str], shaped: bool) -> Report:
    """Medians, the limit, and the ratios that matter."""
    elements = options.size_bytes // FLOAT32_BYTES
    lane_bytes = 2 if options.lanes.startswith("int16") else 4
    traffic = StarTraffic(elements, options.workers, job.packet_values * 4, lane_bytes)
    results = [
        Result(name, "s", runs, {"largest_deviation_from_gloo": measured["errors"][name]})
        for name, runs in measured["seconds"].items()
    ]
    median = {result.name: result.median for result in results}
    limit = Limit(
        traffic.seconds(options.rate_bps),
        "s",
        f"{traffic.bytes} bytes each way on every link ({traffic.value_fragments} packets of values, "
        f"{traffic.preamble_fragments} of exponents, headers of {wire.HEADER_LEN} + 42 bytes included) at "
        f"{options.rate_bps / 1e6:g} Mbit/s",
    )
    over_limit = [Ratio(f"{PRODUCT} / wire limit", median[PRODUCT] / limit.value)] if shaped else []
    speedups = [Ratio(f"{name} / {PRODUCT}", median[name] / median[PRODUCT]) for name in options.against]
    parameters = {
        "workers": options.workers,
        "rate_bps": options.rate_bps if shaped else None,
        "size_bytes": options.size_bytes,
        "lanes": options.lanes,
        "policy": options.policy,
        "engine": options.engine,
        "threads": options.threads,
        "node_threads": options.node_threads,
        "window": job.window,
        "values_per_packet": job.packet_values,
        "mtu_bytes": options.mtu_bytes,
        "topology": "star in network namespaces, shaped by tbf" if shaped else "loopback, unshaped",
    }
    return Report("allreduce", parameters, results, [*over_limit, *speedups], limit if shaped else None, notes)
