"""One rank of `wiresum bench line`: tensors of each size through every backend in turn, and over bare streams.

The benchmark starts it with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and a JSON object on its command line.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed as dist

import torch
from wiresum.bench.line import streams
from wiresum.bench.line.cores import slower_cores
from wiresum.bench.line.processor import spent
from wiresum.bench.rank import PATIENCE
from wiresum.bench.start import Starts
from wiresum.bench.task import RankTask

FLOAT32_BYTES = 4
SUMMED = ("process", "engine")
"""What ranks spend for themselves; the rest is the machine's, and rank 0 sees all of it."""


@dataclass(frozen=True)
class Task(RankTask):
    """What to measure.

    Attributes:
        sizes: bytes of the float32 tensors.
        repeats: measured all-reduces of each.
        warmups: all-reduces before that.
        packet_bytes: of a bare datagram's payload: a packet of the product.
        core_share: of a processor, for each of the engine's threads; None: what the machine gives.
        output: file for rank 0's view.
    """

    sizes: list[int]
    repeats: int
    warmups: int
    packet_bytes: int
    core_share: float | None
    output: str


def main() -> None:
    """Measures, checks the sums, and writes rank 0's view to a file."""
    task = Task.told()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=PATIENCE)
    network = dist.new_group(backend="wiresum", timeout=PATIENCE)
    starts = Starts(Path(task.output).with_suffix(".starts"), dist.get_rank(), dist.get_world_size(), dist.barrier)
    bare = bare_streams(task.packet_bytes)
    with slower_cores(task.core_share):
        measured = measure_all(task, network, starts, bare)
    if dist.get_rank() == 0:
        import wiresum.torch

        view = {"measured": measured, "report": str(wiresum.torch.report())}
        Path(task.output).write_text(json.dumps(view), encoding="utf-8")
    dist.destroy_process_group(network)
    dist.destroy_process_group()


def measure_all(
    task: Task, network: Any, starts: Starts, bare: dict[str, streams.Stream | None]
) -> dict[int, dict[str, list[dict[str, float]]]]:
    """Samples by size of the tensor and way, each way in turn."""
    measured: dict[int, dict[str, list[dict[str, float]]]] = {}
    for size in task.sizes:
        tensor = torch.empty(size // FLOAT32_BYTES).uniform_(-1, 1)
        ways: dict[str, Callable[[torch.Tensor], Any]] = {
            "wiresum": partial(dist.all_reduce, group=network),
            "gloo": dist.all_reduce,
            **{name: partial(over, stream, size) for name, stream in bare.items()},
        }
        samples = measured[size] = {name: [] for name in ways}
        for repeat in range(task.warmups + task.repeats):
            for name, way in ways.items():
                sample = measure(tensor.clone(), way, starts)
                if repeat >= task.warmups:
                    samples[name].append(sample)
    return measured


def measure(tensor: torch.Tensor, way: Callable[[torch.Tensor], Any], starts: Starts) -> dict[str, float]:
    """Seconds until the slowest rank is done, and of processors: of all ranks, and of the machine."""
    start, before = starts.wait(), spent()
    way(tensor)
    elapsed = torch.tensor([time.monotonic() - start], dtype=torch.float64)
    own = asdict(spent().since(before))
    dist.all_reduce(elapsed, op=dist.ReduceOp.MAX)
    machine = asdict(spent().since(before))
    of_ranks = torch.tensor([own[name] for name in SUMMED], dtype=torch.float64)
    dist.all_reduce(of_ranks)
    return {**machine, **dict(zip(SUMMED, of_ranks.tolist(), strict=True)), "elapsed": float(elapsed[0])}


def bare_streams(packet_bytes: int) -> dict[str, streams.Stream | None]:
    """This rank's ends of streams from rank 0 to rank 1; None for other ranks."""
    place: list[Any] = [None]
    listener = None
    if dist.get_rank() == 1:
        listener = streams.Listener(streams.own_address(os.environ["MASTER_ADDR"]))
        place = [listener.place]
    dist.broadcast_object_list(place, src=1)
    if listener:
        return {**listener.accept(packet_bytes)}
    if dist.get_rank() == 0:
        return {**streams.connect(place[0], packet_bytes)}
    return dict.fromkeys(streams.NAMES)


def over(stream: streams.Stream | None, size: int, _tensor: torch.Tensor) -> None:
    """The tensor's bytes once over a bare stream."""
    if stream and dist.get_rank() == 0:
        stream.send(size)
    elif stream:
        stream.receive(size)


if __name__ == "__main__":
    main()
