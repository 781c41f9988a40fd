"""All-reduces of a tensor on a GPU through the process group, beside Gloo: ranks of one machine, over loopback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wiresum.bench.gpu.worker import PRODUCT, Task
from wiresum.bench.result import Ratio, Result
from wiresum.bench.workers import view
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed
from wiresum.topology.generators.star import star

SIZES = (25_000_000, 100_000_000)
"""Bytes: a bucket of DDP, and a large tensor."""
WARMUPS = 2
MICRO = 1e6
PARTS = {"submit": "the call holds the host", "wait": "wait() holds the host"}


def measure(workers: int, runs: int) -> tuple[list[Result], list[Ratio]]:
    """Times of all-reduces, and what they hold the host.

    Args:
        workers: ranks, which share the GPU and the machine's processors with the aggregator.
        runs: measured runs of each.

    Raises:
        TestbedError: a rank failed, or has a wrong sum; the message has the end of its output.
    """
    topology = star(workers, None)
    with Testbed(topology, plan(topology, Job(), PlanOptions(engine="udp")), loopback=True) as bed:
        task = Task([PRODUCT, "gloo"], list(SIZES), runs, WARMUPS, str(bed.folder / "gpu.json"))
        measured = view(bed, task)
    results = list(to_results(workers, measured["runs"]))
    return results, list(ratios(results))


def to_results(workers: int, runs: list[dict[str, Any]]) -> Iterator[Result]:
    """Seconds for each size and backend, then what the product's calls hold the host."""
    for size, backend in dict.fromkeys((run["bytes"], run["backend"]) for run in runs):
        those = [run for run in runs if (run["bytes"], run["backend"]) == (size, backend)]
        extra = {"collective": "all_reduce", "bytes": size, "backend": backend, "workers": workers}
        title = f"all_reduce of {size // 1_000_000} MB"
        yield Result(f"{title}: {backend}", "s", [run["seconds"] for run in those], extra)
        for part, what in PARTS.items():
            yield Result(f"{title}: {backend}, {what}", "µs", [run[part] * MICRO for run in those], extra)


def ratios(results: list[Result]) -> Iterator[Ratio]:
    """Gloo's time over the product's."""
    seconds = {(r.extra["bytes"], r.extra["backend"]): r.median for r in results if r.unit == "s"}
    for size in SIZES:
        if (size, "gloo") in seconds:
            name = f"all_reduce of {size // 1_000_000} MB: gloo / {PRODUCT}"
            yield Ratio(name, seconds[size, "gloo"] / seconds[size, PRODUCT])
