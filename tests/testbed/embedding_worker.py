"""A rank with a sparse and a dense part, for `wiresum testbed run --tables`; with `tables`, prints its tables.

Its rows are float32, or of the type that is named first.
"""

from __future__ import annotations

import json
import sys

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch
from torch import nn
from wiresum.torch import report
from wiresum.torch.sparse import job_tables, shard_embeddings

ROWS, WIDTH, STEPS = 30, 16, 4
SETTINGS = {"optimizer": torch.optim.Adagrad, "optimizer_kwargs": {"lr": 0.1}}


class Wide(nn.Module):
    """What the dense part takes: float32."""

    def forward(self, bags: torch.Tensor) -> torch.Tensor:
        return bags.float()


def model(dtype: torch.dtype) -> nn.Module:
    """A bag, and more dense parameters than the least that the network sums."""
    return nn.Sequential(nn.EmbeddingBag(ROWS, WIDTH, mode="sum", dtype=dtype), Wide(), nn.Linear(WIDTH, 32))


def main() -> None:
    """Trains, and asserts that all ranks have the same rows, which have changed."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    named = [one for one in sys.argv[1:] if one != "tables"]
    made = model(getattr(torch, named[0]) if named else torch.float32)
    if "tables" in sys.argv:
        print(json.dumps(job_tables(made, **SETTINGS)))
        return
    dist.init_process_group("wiresum")
    with shard_embeddings(made, **SETTINGS):
        first = made.state_dict()["0.weight"]
        wrapped = DistributedDataParallel(made)
        dense = torch.optim.SGD(wrapped.parameters(), lr=0.1)
        for step in range(STEPS):
            torch.manual_seed(step * dist.get_world_size() + dist.get_rank())
            dense.zero_grad()
            wrapped(torch.randint(0, ROWS, (8, 3))).square().mean().backward()
            dense.step()
        last = made.state_dict()["0.weight"]
    assert not torch.equal(first, last)
    rows: list[torch.Tensor] = [torch.empty(0)] * dist.get_world_size()
    dist.all_gather_object(rows, last)
    assert all(torch.equal(each, last) for each in rows)
    assert report().summed >= STEPS
    print("same rows", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
