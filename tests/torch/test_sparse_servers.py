"""Sharded embeddings over real servers of tables, with the dense rest summed by DDP over `wiresum` in the same job."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch.distributed as dist
from sharded_model import OPTIMIZERS, PADDING, ROWS, STEPS, WIDTH, Model, batches, step
from table_servers import OneProcess, Weights, table_servers
from torch.nn.parallel import DistributedDataParallel
from world import World

import torch
from wiresum.errors import SparseError
from wiresum.plan.tables import OptimizerName
from wiresum.sparse.client import SparseClient
from wiresum.torch import report
from wiresum.torch.sparse import Rows, job_tables, shard_embeddings
from wiresum.torch.sparse.job import whole

NAMES = ("single", "bag", "ends")
HOT = {"format": "wiresum-hot-map/1", "version": 1, "dim": WIDTH, "positions": 4}
"""Rows of tiers A and B; the rest is cold."""
HOT_ROWS = [[0, 5, 0, "A"], [1, 7, 1, "B"], [1, 9, 2, "A"], [2, 11, 3, "B"]]


class Recorder:
    """A client that remembers what was pushed, by round and table."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.rounds: list[dict[str, list[tuple[Any, Weights]]]] = [defaultdict(list)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def push(self, table: str, keys: Any, grads: Weights) -> None:
        self.rounds[-1][table].append((keys.copy(), grads.copy()))
        self._client.push(table, keys, grads)

    def finish_round(self) -> int:
        self.rounds.append(defaultdict(list))
        return self._client.finish_round()


def everything(rows: Rows) -> dict[str, Weights]:
    return {name: rows.pull(name, np.arange(ROWS)).detach().numpy() for name in NAMES}


def train(job: str, mode: str, name: str) -> dict[str, Any]:
    """On a rank: what it pushed, and the rows before and after."""
    torch.manual_seed(3)
    summed = report().summed
    optimizer = next(each for each in OPTIMIZERS if each.__name__ == name)
    model = Model("sum" if mode == "weighted" else mode)
    with torch.no_grad():
        model.single.weight[3] += dist.get_rank()
        rows = shard_embeddings(model, job, optimizer=optimizer, optimizer_kwargs=OPTIMIZERS[optimizer])
        recorder = rows._client = Recorder(rows._client)
        before = everything(rows)
    wrapped = DistributedDataParallel(model)
    dense = torch.optim.SGD(model.parameters(), lr=0.1)
    with rows:
        losses = [step(wrapped, batch, dense) for batch in batches(weighted=mode == "weighted", seed=dist.get_rank())]
        with torch.no_grad():
            after = everything(rows)
        padding = model.single(torch.tensor([3]))
    rounds = [{table: list(pushed) for table, pushed in each.items()} for each in recorder.rounds[:STEPS]]
    return {
        "rounds": rounds,
        "before": before,
        "after": after,
        "losses": losses,
        "dense": model.dense.weight.detach().numpy(),
        "padding": padding.detach().numpy(),
        "summed": report().summed - summed,
    }


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize(
    ("mode", "optimizer"),
    [("sum", "SGD"), ("mean", "Adagrad"), ("weighted", "SparseAdam"), ("max", "SGD")],
)
def test_rows_are_those_of_one_process_with_exact_sums(
    networked: World, tmp_path: Path, mode: str, optimizer: str, servers: int
) -> None:
    kind = next(each for each in OPTIMIZERS if each.__name__ == optimizer)
    tables = job_tables(Model("sum" if mode == "weighted" else mode), kind, OPTIMIZERS[kind], seed=5)
    hot = json.dumps({**HOT, "rows": HOT_ROWS}) if servers > 1 else None
    with table_servers(tmp_path, tables, networked.size, servers, hot) as daemons:
        ranks = networked.run(train, str(daemons.job_file), mode, optimizer)
    for number, name in enumerate(NAMES):
        one = OneProcess(ranks[0]["before"][name], tables[number]["optimizer"])
        for round_ in range(STEPS):
            one.step([rank["rounds"][round_].get(name, []) for rank in ranks])
        for rank in ranks:
            np.testing.assert_array_equal(rank["after"][name], one.weights, err_msg=name)
        assert not np.array_equal(one.weights, ranks[0]["before"][name])
    for rank in ranks[1:]:
        np.testing.assert_array_equal(rank["dense"], ranks[0]["dense"])
        assert (rank["padding"] == PADDING).all()  # of rank 0
        assert rank["summed"] >= STEPS  # of the dense rest, by DDP in the same job


def optimizers_of_tables(values: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """A table for each optimizer."""
    made = {"rows": {"counted": 3}, "dim": 2, "initial": "zeros", "seed": 0}
    return [
        {"id": number, "name": name, "optimizer": {"name": name, "lr": 0.1, **given}, **made}
        for number, (name, given) in enumerate(values.items())
    ]


def test_servers_take_the_usual_hyperparameters_where_a_job_leaves_them_out(tmp_path: Path) -> None:
    """Participants compare digests of their files: a client whose file says what is usual is let in, others are not."""
    names = get_args(OptimizerName)
    usual = {name: whole({"name": name, "lr": 0.1}) for name in names}
    short = optimizers_of_tables({name: {} for name in names})
    with table_servers(tmp_path, short, workers=1, servers=1) as daemons:
        job = json.loads(daemons.job_file.read_text())
        full = {**job, "tables": optimizers_of_tables(usual)}
        SparseClient.connect(json.dumps(full), 0).close()
        kept = {"name", "lr", "betas"}
        others = {name: {field: 0.25 for field in given if field not in kept} for name, given in usual.items()}
        other = {**job, "tables": optimizers_of_tables(others)}
        with pytest.raises(SparseError, match="file"):
            SparseClient.connect(json.dumps(other), 0, incarnation=1)
