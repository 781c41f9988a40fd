"""An ordinary DDP training whose gradient and number of steps are those of a job of a workload.

Nothing in it knows Wiresum but the backend's name. `wiresum testbed run TOPOLOGY --jobs FILE` tells each job's ranks
its bytes, iterations and seconds of computing; computing is slept, as many ranks share few cores.
"""

from __future__ import annotations

import os
import time

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch
from torch import nn

FLOAT_BYTES = 4
MEBIBYTE = 1 << 20
RATE = 0.5
TOLERANCE = 1e-4
"""The codec of switches is `fixed:1e6`."""


class Weights(nn.Module):
    """One parameter, whose gradient is what it is multiplied with."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(size))

    def forward(self, scale: float) -> torch.Tensor:
        """Its gradient is `scale` everywhere."""
        return self.weights.sum() * scale


def main() -> None:
    """Trains, and asserts that every gradient was the average of all ranks'."""
    size = max(1, int(os.environ.get("WIRESUM_JOB_BYTES", MEBIBYTE)) // FLOAT_BYTES)
    iterations = int(os.environ.get("WIRESUM_JOB_ITERATIONS", "1"))
    compute_s = float(os.environ.get("WIRESUM_JOB_COMPUTE_S", "0"))
    torch.set_num_threads(1)
    dist.init_process_group(os.environ.get("WIRESUM_TESTBED_BACKEND", "wiresum"))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    bucket_mb = size * FLOAT_BYTES // MEBIBYTE + 1
    model = DistributedDataParallel(Weights(size), bucket_cap_mb=bucket_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for step in range(1, iterations + 1):
        time.sleep(compute_s)
        optimizer.zero_grad()
        model(float(rank + step)).backward()
        gradient = model.module.weights.grad
        wanted = sum(other + step for other in range(ranks)) / ranks
        assert bool(((gradient - wanted).abs() < TOLERANCE).all()), f"step {step}: {gradient} is not {wanted}"
        optimizer.step()
        if rank == 0:
            print(f"step {step} of {iterations}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
