"""A profile of this machine: what a packet costs, and what a byte, from packets of two sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from wiresum.bench.line import measure
from wiresum.bench.line.command import Options
from wiresum.bench.result import cpu_model
from wiresum.plan.aggregation_plan import LANE_BYTES
from wiresum.plan.job import Job
from wiresum.predict.hosts import HostProfile, fit

SMALL_MTU_BYTES = 1500
"""Ethernet's usual one; its packets have less than half of the values of the largest."""


def measure_profile(options: Options, progress: Callable[[str], None]) -> HostProfile:
    """The first of the chosen engines, transports and numbers of workers with the largest tensor, over two MTUs."""
    engine, transport, workers = options.engines[0], options.transports[0], options.workers[0]
    size = max(options.sizes)
    share = 0.5 if options.lanes.startswith("int16") else 1.0  # bytes of values for one of the tensor
    costs: dict[int, dict[str, float]] = {}
    for mtu_bytes in (SMALL_MTU_BYTES, options.mtu_bytes):
        progress(f"profile: {engine}, {transport} workers, packets for an MTU of {mtu_bytes}")
        payload = LANE_BYTES * Job(mtu_bytes=mtu_bytes, jumbo=options.jumbo, lanes=options.lanes).packet_values
        samples, _ = measure.run(replace(options, sizes=(size,), mtu_bytes=mtu_bytes), engine, transport, workers)
        spent = parts(measure.per_gb(size, workers, samples[size]["wiresum"]))
        costs[payload] = {part: seconds / share for part, seconds in spent.items()}
    thread, worker, node = (fit({payload: cost[part] for payload, cost in costs.items()}) for part in PARTS)
    return HostProfile(machine=cpu_model(), engine=engine, transport=transport, thread=thread, worker=worker, node=node)


PARTS = ("thread", "worker", "node")


def parts(spent: dict[str, float]) -> dict[str, float]:
    """Parts of the processor seconds of one rank: its thread, its process, and all else on the machine."""
    rest = max(0.0, spent["machine"] - spent["process"])
    return dict(zip(PARTS, (spent["engine"], spent["process"], rest), strict=True))
