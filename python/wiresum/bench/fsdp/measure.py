"""`wiresum bench fsdp`: the same training through every backend, with and without `overlap`, turn by turn."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from wiresum.bench.fsdp.command import Options
from wiresum.bench.fsdp.network import job_of, network
from wiresum.bench.fsdp.worker import Task
from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.workers import view
from wiresum.errors import TestbedError
from wiresum.plan.aggregation_plan import LANE_BYTES
from wiresum.plan.choices import ELEMENT_BYTES, FLOAT32_BYTES, lane_bytes
from wiresum.predict.collectives import Shape, Traffic
from wiresum.testbed import Testbed

PRODUCT = "wiresum"
WAYS = {False: "unmodified", True: "overlap"}


def measure(options: Options) -> Report:
    """Sets up the links, trains every way in turn, and takes the links down.

    Raises:
        TestbedError: a worker failed, or losses differ.
    """
    width, element_bytes = width_of(options), ELEMENT_BYTES[options.dtype]
    with network(options) as bed:
        measured = run_workers(bed, options, width)
        notes = [*bed.left_out, *measured["notes"], *str(measured["report"]).splitlines()]
    payload_bytes = job_of(options).packet_values * LANE_BYTES
    lanes = lane_bytes(options.lanes, element_bytes)
    block = Shape(width**2, element_bytes, options.grid.shards, payload_bytes, lanes)
    return to_report(options, block, measured["runs"], notes)


def width_of(options: Options) -> int:
    """Side of a block's square of weights, which the workers share evenly.

    Raises:
        TestbedError: nothing is left.
    """
    width = math.isqrt(options.size_bytes // FLOAT32_BYTES // options.blocks) // options.grid.ranks * options.grid.ranks
    if not width:
        raise TestbedError(
            f"--size: {options.size_bytes} bytes in {options.blocks} blocks are no row for each worker; give more"
        )
    return width


def step_traffic(block: Shape, blocks: int, replicas: int = 1) -> Traffic:
    """What a step moves on a link: parameters for the forward and the backward pass, gradients, replicas' sums."""
    gathered, scattered = block.traffic("all_gather"), block.traffic("reduce_scatter")
    return sum([gathered, gathered, scattered, replica_traffic(block, replicas)] * blocks, Traffic(0, 0))


def replica_traffic(block: Shape, replicas: int) -> Traffic:
    """What a rank's shard of the gradient moves when it is summed over the replicas."""
    if replicas == 1:
        return Traffic(0, 0)
    shard = replace(block, elements=block.elements // block.workers, workers=replicas)
    return shard.traffic("all_reduce")


def run_workers(bed: Testbed, options: Options, width: int) -> dict[str, Any]:
    """Runs one process per worker and returns what rank 0 wrote."""
    task = Task(
        backends=[PRODUCT, *options.against],
        ways=options.ways,
        mesh=[options.grid.replicas, options.grid.shards],
        dtype=options.dtype,
        blocks=options.blocks,
        width=width,
        steps=options.steps,
        repeats=options.repeats,
        warmups=options.warmups,
        output=str(bed.folder / "fsdp.json"),
    )
    return view(bed, task)


def to_report(options: Options, block: Shape, runs: list[dict[str, Any]], notes: list[str]) -> Report:
    """Medians, the limit, and the ratios that matter."""
    limit_s = step_traffic(block, options.blocks, options.grid.replicas).seconds(options.rate_bps)
    results = list(_results(options, limit_s, runs))
    parameters = {
        "workers": options.grid.ranks,
        "mesh": str(options.grid),
        "dtype": options.dtype,
        "rate_bps": options.rate_bps,
        "model_bytes": options.blocks * block.elements * FLOAT32_BYTES,
        "blocks": options.blocks,
        "steps": options.steps,
        "lanes": options.lanes,
        "engine": options.engine,
        "servers": options.servers,
        "copy_servers": options.copy_servers,
        "topology": f"{'servers' if options.servers else 'star'} in network namespaces, shaped by tbf",
    }
    return Report("fsdp", parameters, results, list(_ratios(results)), notes=notes)


def _results(options: Options, limit_s: float, runs: list[dict[str, Any]]) -> Iterator[Result]:
    """Seconds and bytes of a step."""
    for overlapped in options.ways:
        for backend in (PRODUCT, *options.against):
            own = [run for run in runs if (run["overlapped"], run["backend"]) == (overlapped, backend)]
            seconds = [run["seconds"] / options.steps for run in own]
            extra = {
                "collective": "fsdp",
                "overlapped": overlapped,
                "backend": backend,
                "dtype": options.dtype,
                "steps_per_second": 1 / statistics.median(seconds),
                "limit_seconds": limit_s,
                **{
                    way: statistics.median(run[way] for run in own) / options.steps
                    for way in ("bytes_up", "bytes_down")
                },
            }
            yield Result(f"{WAYS[overlapped]}: {backend}", "s", seconds, extra)


def _ratios(results: list[Result]) -> Iterator[Ratio]:
    """Ratios of the seconds that a step takes."""
    medians = {(result.extra["overlapped"], result.extra["backend"]): result.median for result in results}
    for (overlapped, backend), median in medians.items():
        ours = medians[overlapped, PRODUCT]
        if backend == PRODUCT:
            yield Ratio(f"{WAYS[overlapped]}: {PRODUCT} / limit", ours / results[0].extra["limit_seconds"])
        else:
            yield Ratio(f"{WAYS[overlapped]}: {backend} / {PRODUCT}", median / ours)
        if overlapped and (False, backend) in medians:
            yield Ratio(f"{backend}: unmodified / overlap", medians[False, backend] / median)
