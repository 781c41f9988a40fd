"""An ordinary DDP training script: nothing in it knows Wiresum but the backend's name, unless 8 bits are asked for.

Run it with anything that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, for example

    wiresum testbed run star --workers 4 -- python -m wiresum.demo.train --backend wiresum
    torchrun --nproc-per-node 4 -m wiresum.demo.train --backend gloo
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import torch
from torch import nn
from wiresum.training import data
from wiresum.training.step import step

HOOKS = ("none", "bf16", "8 bits")
"""DDP's communication hooks for gradients: 32, 16 or 8 bits of each value travel."""
ALL_REDUCE_REPEATS = 5
"""All-reduces of the whole gradient that are timed after training, when nothing overlaps them."""


def main() -> None:
    """Trains, tests, times the all-reduce, and writes what came out."""
    options = parse_arguments()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group(options.backend)
    images = data.load(options.data_dir)
    model = DistributedDataParallel(convolutional_network(images), gradient_as_bucket_view=True)
    shorten_gradients(model, options.hook)
    results = {
        "backend": options.backend,
        "data": images.name,
        "workers": dist.get_world_size(),
        "parameters": sum(p.numel() for p in model.parameters()),
        **train(model, images, options),
        "accuracy": accuracy(model, images),
        "all_reduce_seconds": time_all_reduce(model, options.hook),
    }
    if dist.get_rank() == 0 and options.output:
        options.output.write_text(json.dumps(results | network_report(options.backend)))
    dist.destroy_process_group()


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="wiresum", help="of torch.distributed (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=6, help="passes over the data (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step (default: %(default)s)")
    parser.add_argument("--hook", choices=HOOKS, default="none", help="what shortens gradients (default: none)")
    parser.add_argument("--max-steps", type=int, help="stop after this many steps")
    parser.add_argument("--data-dir", type=Path, help="folder with CIFAR-10/100; digits of scikit-learn if absent")
    parser.add_argument("--output", type=Path, help="JSON file that rank 0 writes")
    return parser.parse_args()


def convolutional_network(images: data.Images) -> nn.Module:
    """Three convolutions and two dense layers, 2.5 million parameters: small to compute, large to send."""
    channels = images.train_images.shape[1]

    def block(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]

    return nn.Sequential(
        *block(channels, 64),
        *block(64, 128),
        nn.MaxPool2d(2),
        *block(128, 256),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(256 * 4 * 4, 512),
        nn.ReLU(inplace=True),
        nn.Linear(512, images.classes),
    )


def train(model: nn.Module, images: data.Images, options: argparse.Namespace) -> dict[str, Any]:
    """Runs the epochs; returns speed and the loss of each step. The first step is left out of the speed."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    total = options.epochs * data.steps_per_epoch(images, world_size, options.batch_size)
    total = min(total, options.max_steps or total)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    losses: list[float] = []
    ends: list[float] = []
    for batch in (
        b for e in range(options.epochs) for b in data.batches(images, rank, world_size, options.batch_size, e)
    ):
        if len(losses) == total:
            break
        losses.append(step(model, optimizer, *batch))
        ends.append(time.perf_counter())
        announce(step=len(losses), steps=total, loss=losses[-1])
    seconds = ends[-1] - ends[0]
    images_per_step = options.batch_size * world_size
    return {
        "steps": len(losses),
        "step_seconds": [b - a for a, b in itertools.pairwise(ends)],
        "images_per_second": images_per_step * (len(ends) - 1) / seconds if seconds else 0.0,
        "losses": losses,
    }


def accuracy(model: nn.Module, images: data.Images) -> float:
    """Share of the test images that are classified right (computed alike on every rank)."""
    model.eval()
    with torch.no_grad():
        batches = zip(torch.split(images.test_images, 256), torch.split(images.test_labels, 256), strict=True)
        right = sum(int((model(x).argmax(1) == y).sum()) for x, y in batches)
    return right / len(images.test_labels)


def shorten_gradients(model: DistributedDataParallel, hook: str) -> None:
    """Registers one of `HOOKS`."""
    if hook == "bf16":
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    elif hook == "8 bits":
        from wiresum.torch.eight_bits import EightBits

        model.register_comm_hook(EightBits(), EightBits.hook)


def time_all_reduce(model: nn.Module, hook: str) -> float:
    """Median seconds of an all-reduce of the whole gradient, one tensor as a hook has it; the slowest rank counts."""
    gradient = torch.zeros(sum(p.numel() for p in model.parameters())).uniform_(-1, 1)
    gradient = gradient.bfloat16() if hook == "bf16" else gradient
    reduce = partial(all_reduce_of_8_bits, kept=gradient.clone()) if hook == "8 bits" else dist.all_reduce
    seconds = torch.zeros(ALL_REDUCE_REPEATS, dtype=torch.float64)
    for repeat in range(ALL_REDUCE_REPEATS):
        dist.barrier()
        start = time.perf_counter()
        reduce(gradient)
        seconds[repeat] = time.perf_counter() - start
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    return float(seconds.median())


def all_reduce_of_8_bits(gradient: torch.Tensor, kept: torch.Tensor) -> None:
    """What the hook does with a bucket."""
    from wiresum.torch import eight_bits

    eight_bits.all_reduce(gradient.add_(kept), kept=kept)


def network_report(backend: str) -> dict[str, Any]:
    """What the backend says was summed in the network; nothing for other backends."""
    if backend != "wiresum":
        return {}
    import wiresum.torch

    return {"report": str(wiresum.torch.report())}


def announce(**progress: float) -> None:
    """Tells whoever started this script how far it is, one JSON object a line, from rank 0."""
    if dist.get_rank() == 0:
        print(json.dumps(progress), file=sys.stdout, flush=True)


if __name__ == "__main__":
    main()
