"""A recommender under DDP: users and items in tables, clicks to predict. It knows nothing of Wiresum but a name.

    wiresum testbed run star --workers 4 --rate 50mbit -- python docs/examples/recommender.py

has every rank hold the tables; their sparse gradients are summed in the network. With `--shard`, rows live at servers:

    python docs/examples/recommender.py --print-tables > tables.json
    wiresum testbed run star --workers 4 --servers 1 --rate 50mbit --tables tables.json --hot-rows 2000 \
        -- python docs/examples/recommender.py --shard
"""

import argparse
import json
import os
import time

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch
from torch import nn

ROWS, WIDTH, BATCH, STEPS = 20_000, 16, 256, 20
TABLES = {"optimizer": torch.optim.Adagrad, "optimizer_kwargs": {"lr": 0.05}}


class Recommender(nn.Module):
    """A click is likely where a user and what the user has seen are like an item."""

    def __init__(self) -> None:
        super().__init__()
        self.users = nn.Embedding(ROWS, WIDTH, sparse=True)
        self.items = nn.EmbeddingBag(ROWS, WIDTH, mode="mean", sparse=True)
        self.dense = nn.Sequential(nn.Linear(2 * WIDTH, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """How likely a click is, before the sigmoid."""
        return self.dense(torch.cat([self.users(users), self.items(items)], dim=1))[:, 0]


def batch(step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Users, five items that each has seen, and clicks; a few rows are popular, as everywhere."""
    random = torch.Generator().manual_seed(1000 * step + rank)
    drawn = torch.rand(BATCH, 6, generator=random)
    rows = (ROWS**drawn).long() - 1
    users, items = rows[:, 0], rows[:, 1:]
    return users, items, ((users + items.sum(dim=1)) % 3 == 0).float()


def main() -> None:
    """Trains, and prints losses and samples per second."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shard", action="store_true", help="rows live at servers")
    parser.add_argument("--print-tables", action="store_true", help="what the servers have to know, as JSON")
    asked = parser.parse_args()
    torch.manual_seed(0)
    model = Recommender()
    if asked.print_tables:
        from wiresum.torch.sparse import job_tables

        print(json.dumps(job_tables(model, **TABLES, loads=0)))
        return

    dist.init_process_group(os.environ.get("WIRESUM_TESTBED_BACKEND", "wiresum"))
    optimizers = [torch.optim.SGD(model.dense.parameters(), lr=0.1)]
    if asked.shard:
        from wiresum.torch.sparse import shard_embeddings

        weights = model.state_dict()
        rows = shard_embeddings(model, **TABLES)  # the line that moves tables to servers
        model.load_state_dict(weights)  # they begin as they were here
    else:
        tables = [model.users.weight, model.items.weight]
        optimizers.append(TABLES["optimizer"](tables, **TABLES["optimizer_kwargs"]))
    model = DistributedDataParallel(model)

    begun = time.perf_counter()
    for step in range(STEPS):
        users, items, clicks = batch(step, dist.get_rank())
        loss = nn.functional.binary_cross_entropy_with_logits(model(users, items), clicks)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if dist.get_rank() == 0:
            print(f"step {step}: loss {mean.item() / dist.get_world_size():.6f}", flush=True)
    if dist.get_rank() == 0:
        samples = STEPS * BATCH * dist.get_world_size() / (time.perf_counter() - begun)
        print(f"{samples:,.0f} samples/s", flush=True)
    if asked.shard:
        rows.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
