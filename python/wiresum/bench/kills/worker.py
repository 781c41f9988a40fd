"""One rank of `wiresum bench kills`: DDP training that tells after every step what its parameters are.

The benchmark starts it with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and a JSON object on its command line.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch
from torch import nn
from wiresum.bench.task import RankTask
from wiresum.training import data
from wiresum.training.step import step

HIDDEN = 512
"""Width of the dense layers: 0.5 million parameters, little to compute and a few hundred packets to sum."""
BATCH = 16


@dataclass(frozen=True)
class Task(RankTask):
    """How long to train.

    Attributes:
        steps: at most.
        stop_file: train until this file is there; empty: all steps.
    """

    steps: int
    stop_file: str


def main() -> None:
    """Trains, and prints one JSON object a step: rank, step, checksum of the parameters, time, process."""
    task = Task.told()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("wiresum")
    images = data.load(None)
    model = DistributedDataParallel(dense_network(images), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    rank = dist.get_rank()
    for number, batch in enumerate(endless_batches(images, rank)):
        if number == task.steps or is_over(task):
            break
        step(model, optimizer, *batch)
        seen = {
            "rank": rank, "step": number, "checksum": checksum(model), "at": time.monotonic(), "pid": os.getpid(),
        }  # fmt: skip
        print(json.dumps(seen), flush=True)
    dist.destroy_process_group()


def dense_network(images: data.Images) -> nn.Module:
    """Three dense layers."""
    pixels = images.train_images[0].numel()
    layers = [nn.Flatten(), nn.Linear(pixels, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(HIDDEN, images.classes))


def endless_batches(images: data.Images, rank: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Epoch after epoch."""
    epoch = 0
    while True:
        yield from data.batches(images, rank, dist.get_world_size(), BATCH, epoch)
        epoch += 1


def is_over(task: Task) -> bool:
    """Whether any rank has seen the stop file: all have to agree on the last step."""
    seen = torch.tensor([int(bool(task.stop_file) and Path(task.stop_file).exists())])
    dist.all_reduce(seen, op=dist.ReduceOp.MAX)
    return bool(seen.item())


def checksum(model: nn.Module) -> int:
    """A checksum of every bit of every parameter."""
    total = 0
    for parameter in model.parameters():
        total = zlib.crc32(parameter.detach().numpy().tobytes(), total)
    return total


if __name__ == "__main__":
    main()
