"""Checkpoints of rows at real servers: saved and loaded with other numbers of servers and workers, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from sharded_model import OPTIMIZERS, PADDING, ROWS, WIDTH, Model, batches, step
from table_servers import Weights, table_servers
from torch.nn.parallel import DistributedDataParallel
from world import World

import torch
from wiresum.torch.sparse import job_tables, shard_embeddings, sharded_state_dict, steps_of

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning:torch.distributed.checkpoint")

NAMES = ("single", "bag", "ends")
KIND = torch.optim.SparseAdam
"""Has the most state, and counts steps."""
BEFORE, AFTER = 3, 2
HOT = {
    "format": "wiresum-hot-map/1", "version": 1, "dim": WIDTH, "positions": 4,
    "rows": [[0, 5, 0, "A"], [1, 7, 1, "B"], [1, 9, 2, "A"], [2, 11, 3, "B"]],
}  # fmt: skip
PADDING_ROWS = {"single": 3, "bag": 0}
"""As `sharded_model.Model` has it."""


def everything(rows: Any) -> dict[str, Weights]:
    """Weights and state of all rows; servers that have loaded no rows have drawn other padding rows."""
    stored = {name: rows.pull_stored(name, np.arange(ROWS)).numpy() for name in NAMES}
    for name, row in PADDING_ROWS.items():
        stored[name][row, :WIDTH] = 0
    return stored


def train(job: str, path: str, *, loads: bool) -> dict[str, Any]:
    """On a rank: trains and saves, or loads; then trains on. Dense parameters go with the rows."""
    torch.manual_seed(3)
    model = Model("sum")
    model.single.weight.data[3] += dist.get_rank() + 10 * loads  # rank 0 or the load decides
    with shard_embeddings(model, job, optimizer=KIND, optimizer_kwargs=OPTIMIZERS[KIND]) as rows:
        wrapped = DistributedDataParallel(model)
        dense = torch.optim.SGD(model.parameters(), lr=0.1)
        made = batches(weighted=False, count=BEFORE + AFTER, seed=dist.get_rank())
        if loads:
            state = sharded_state_dict(wrapped)
            dcp.load(state, checkpoint_id=path)
            wrapped.load_state_dict(state)
        else:
            for batch in made[:BEFORE]:
                step(wrapped, batch, dense)
            state = sharded_state_dict(wrapped)
            dcp.save(state, checkpoint_id=path)
        stored = everything(rows)
        plain = model.state_dict()
        for batch in made[BEFORE:]:
            step(wrapped, batch, dense)
        return {
            "stored": stored,
            "steps": steps_of(state),
            "parts": {name: tuple(state[f"module.{name}.weight"].to_local().shape) for name in NAMES},
            "weights": {name: plain[f"{name}.weight"].numpy() for name in NAMES},
            "later": everything(rows),
        }


def train_more(job: str, path: str) -> dict[str, Any]:
    return train(job, path, loads=True)


def train_first(job: str, path: str) -> dict[str, Any]:
    return train(job, path, loads=False)


def same(ours: dict[str, Weights], theirs: dict[str, Weights]) -> None:
    for name in NAMES:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def test_training_goes_on_bit_for_bit_with_other_servers_and_workers(networked: World, tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")

    def run(world: World, check: Any, servers: int, *, hot: bool = False, loads: int | None = None) -> list[Any]:
        folder = tmp_path / check.__name__ / str(world.size)
        folder.mkdir(parents=True)
        tables = job_tables(Model("sum"), KIND, OPTIMIZERS[KIND], loads=loads)
        map_text = json.dumps(HOT) if hot else None
        with table_servers(folder, tables, world.size, servers, map_text) as daemons:
            return world.run(check, str(daemons.job_file), checkpoint)

    first = run(networked, train_first, 1)
    assert first[0]["steps"] == BEFORE
    assert sum(rank["parts"]["bag"][0] for rank in first) == ROWS  # each rank saves its part alone
    assert (first[2]["weights"]["single"][3] == PADDING).all()
    assert first[0]["stored"]["bag"].shape == (ROWS, 3 * WIDTH)
    again = run(networked, train_more, 3, hot=True, loads=BEFORE)
    with World(2, backend="gloo") as smaller:
        fewer = run(smaller, train_more, 2, loads=BEFORE)
    for rank in [*again, *fewer]:
        same(rank["stored"], first[0]["stored"])
        for name in NAMES:
            np.testing.assert_array_equal(rank["weights"][name], first[0]["weights"][name])
    for rank in again:
        same(rank["later"], first[0]["later"])


def load_unknown(job: str) -> str:
    model = Model("sum")
    with shard_embeddings(model, job, optimizer=KIND, optimizer_kwargs=OPTIMIZERS[KIND]):
        state = sharded_state_dict(model)
        for name in NAMES:
            state[f"{name}.steps"] = torch.tensor(7)
        try:
            model.load_state_dict(state)
        except RuntimeError as error:
            return str(error)
    return "loaded"


def test_steps_that_a_job_does_not_know_are_refused_by_name(networked: World, tmp_path: Path) -> None:
    tables = job_tables(Model("sum"), KIND, OPTIMIZERS[KIND])
    with table_servers(tmp_path, tables, networked.size) as daemons:
        for said in networked.run(load_unknown, str(daemons.job_file)):
            assert "the rows have had 7 steps, which the job does not know: `job_tables(…, loads=7)` says so" in said
