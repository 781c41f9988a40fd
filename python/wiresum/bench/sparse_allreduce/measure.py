"""`wiresum bench sparse-allreduce`: rows of a trace through `torch.distributed.all_reduce`, beside rivals."""

from __future__ import annotations

from typing import Any

from wiresum.bench.result import Limit, Ratio, Report, Result
from wiresum.bench.sparse_allreduce.command import Options
from wiresum.bench.sparse_allreduce.traffic import Round
from wiresum.bench.sparse_allreduce.worker import PRODUCT, Task
from wiresum.bench.workers import view
from wiresum.errors import TraceError
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.sparse.spec import parse
from wiresum.testbed import Testbed
from wiresum.topology.generators.star import star


def measure(options: Options) -> Report:
    """Sets up the links, runs every method in turn in the same processes, and takes the links down.

    Args:
        options: what to measure.

    Raises:
        TraceError: the trace cannot be, or its tables differ in dimension.
        TestbedError: a worker failed; the message has the end of its output.
    """
    pushed = first_round(options)
    topology = star(options.workers, options.rate_bps)
    job = Job(mtu_bytes=options.mtu_bytes, gradient_bytes=len(pushed.union) * pushed.dim * 4)
    with Testbed(topology, plan(topology, job, PlanOptions(engine=options.engine)), mtu_bytes=options.mtu_bytes) as bed:
        measured = run_workers(bed, options)
        measured["notes"] = [*bed.left_out, *str(measured["report"]).splitlines()]
        shaped = not bed.why_loopback
    return to_report(options, pushed, job.packet_values * 4, measured, shaped=shaped)


def first_round(options: Options) -> Round:
    """What all ranks push in the trace's first round."""
    trace = parse(options.trace)
    dims = {table.dimension for table in trace.tables.tables}
    if len(dims) > 1:
        raise TraceError(f"tables of {len(dims)} dimensions are no one tensor; give a trace whose tables are alike")
    keys = [trace.pushed(0, worker, options.workers) for worker in range(options.workers)]
    return Round(keys, dims.pop())


def run_workers(bed: Testbed, options: Options) -> dict[str, Any]:
    """Runs one process per worker and returns what rank 0 wrote."""
    output = str(bed.folder / "sparse-allreduce.json")
    task = Task(options.trace, list(options.against), options.repeats, options.warmups, output)
    return view(bed, task)


def to_report(options: Options, pushed: Round, payload_bytes: int, measured: dict[str, Any], *, shaped: bool) -> Report:
    """Medians, each method's limit, and the ratios that matter."""
    traffic = pushed.wiresum(payload_bytes)
    link_bytes = {PRODUCT: traffic.bytes, "gloo": pushed.gloo_bytes(), "balanced": pushed.balanced_bytes()}
    limits = {name: count * 8 / options.rate_bps for name, count in link_bytes.items()}
    results = [
        Result(
            name,
            "s",
            runs,
            {"largest_deviation_from_gloo": measured["errors"][name], "link_bytes": link_bytes[name]}
            | ({"limit_s": limits[name]} if shaped else {}),
        )
        for name, runs in measured["seconds"].items()
    ]
    median = {result.name: result.median for result in results}
    over = [Ratio(f"{name} / its limit", median[name] / limits[name]) for name in median] if shaped else []
    speedups = [Ratio(f"{name} / {PRODUCT}", median[name] / median[PRODUCT]) for name in options.against]
    explanation = (
        f"{len(pushed.union)} rows that any worker pushes, {traffic.bytes} bytes each way on every link, headers "
        f"included, at {options.rate_bps / 1e6:g} Mbit/s"
    )
    per_method = [f"limit of {name}: {limits[name]:.4g} s, {link_bytes[name]} bytes" for name in median if shaped]
    parameters = {
        "trace": options.trace,
        "workers": options.workers,
        "rate_bps": options.rate_bps if shaped else None,
        "rows_pushed": [len(keys) for keys in pushed.keys],
        "rows_of_all": len(pushed.union),
        "values_of_a_row": pushed.dim,
        "engine": options.engine,
        "mtu_bytes": options.mtu_bytes,
        "topology": "star in network namespaces, shaped by tbf" if shaped else "loopback, unshaped",
    }
    limit = Limit(limits[PRODUCT], "s", explanation) if shaped else None
    return Report("sparse-allreduce", parameters, results, [*over, *speedups], limit, [*measured["notes"], *per_method])
