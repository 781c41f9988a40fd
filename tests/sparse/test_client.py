"""Rows through the client: real daemons on this machine, two ranks, exact sums; and what is refused."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import torch
from wiresum.deploy.daemon import find_binary
from wiresum.errors import SparseError
from wiresum.plan.tables import Optimizer, Table
from wiresum.sparse.client import SparseClient
from wiresum.sparse.job import sparse_job

TABLES = [
    Table(name="users", rows=50, dimension=4, features=["user"], optimizer=Optimizer(name="sgd", lr=1.0)),
    Table(name="ads", rows=20, dimension=4, features=["ad"], optimizer=Optimizer(name="sgd", lr=0.5)),
]
HOT = (
    '{"format": "wiresum-hot-map/1", "version": 1, "dim": 4, "positions": 2, "rows": [[0, 7, 0, "A"], [1, 3, 1, "B"]]}'
)


def free_addresses(count: int) -> list[str]:
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses


@contextmanager
def job(folder: Path, workers: int, kind: str = "float32") -> Iterator[str]:
    first, second, switch = free_addresses(3)
    tables = [table.model_copy(update={"type": kind}) for table in TABLES]
    text = sparse_job(tables, workers, [first, second], [switch], hot=HOT, secret="09" * 32)
    path = folder / "job.json"
    path.write_text(text)
    daemons = [
        subprocess.Popen([find_binary(), "--tables", str(path), "--node", str(node)], stdout=subprocess.PIPE, text=True)
        for node in range(3)
    ]
    try:
        for daemon in daemons:
            assert daemon.stdout
            assert daemon.stdout.readline().startswith("ready")
        yield str(path)
    finally:
        for daemon in daemons:
            daemon.kill()
            daemon.wait()


def gradients(rank: int, number: int) -> tuple[list[int], np.ndarray]:
    """Values that float32 adds without an error."""
    keys = [key for key in range(50) if (key + rank) % 3 == number % 3]
    return keys, np.array([[key / 64 + rank, number, -key, 0.25] for key in keys], np.float32)


def train(path: str, rank: int, rounds: int) -> np.ndarray:
    with SparseClient.connect(path, rank, incarnation=5, timeout_s=60) as client:
        for number in range(rounds):
            keys, grads = gradients(rank, number)
            client.push("users", keys, grads)
            client.push("ads", [3, 3], np.ones((2, 4)))
            assert client.finish_round() == number + 1
        assert client.finished_rounds == rounds
        assert client.statistics()["rounds"] == rounds
        return np.concatenate([client.pull("users", range(50)), client.pull("ads", [3, 0])])


def test_rows_are_sums_of_all_ranks_bit_for_bit(tmp_path):
    expected = np.zeros((52, 4), np.float32)
    for number in range(4):
        for rank in range(2):
            keys, grads = gradients(rank, number)
            expected[keys] -= grads
        expected[50] -= 0.5 * 4
    with job(tmp_path, workers=2) as path:
        found = {}
        other = threading.Thread(target=lambda: found.update(other=train(path, 1, 4)))
        other.start()
        found["own"] = train(path, 0, 4)
        other.join()
    np.testing.assert_array_equal(found["own"], expected)
    np.testing.assert_array_equal(found["other"], expected)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_rows_of_16_bits_are_told_rounded_and_kept_in_float32(tmp_path, kind):
    """Gradients that the type has, and one that it has not; row 7 is at every worker, row 3 of `ads` at the switch."""
    dtype = getattr(torch, kind)
    fine = np.full((1, 4), 1 + 2**-20, np.float32)

    def one(path: str, rank: int) -> tuple[np.ndarray, np.ndarray]:
        with SparseClient.connect(path, rank, incarnation=5, timeout_s=60) as client:
            for number in range(4):
                keys, grads = gradients(rank, number)
                client.push("users", keys, grads)
                client.push("users", [4], fine)
                client.push("ads", [3], fine)
                client.finish_round()
            tables = [("users", range(50)), ("ads", [3, 0])]
            told = np.concatenate([client.pull(*table) for table in tables])
            return told, np.concatenate([client.pull_stored(*table) for table in tables])

    kept = np.zeros((52, 4), np.float32)
    for number in range(4):
        for rank in range(2):
            keys, grads = gradients(rank, number)
            kept[keys] -= grads
        kept[4] -= 2 * fine[0]
        kept[50] -= fine[0]
    with job(tmp_path, workers=2, kind=kind) as path, ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda rank: one(path, rank), range(2)))
    rounded = torch.from_numpy(kept).to(dtype).float().numpy()
    assert not np.array_equal(rounded, kept)
    for told, stored in found:
        np.testing.assert_array_equal(told, rounded)
        np.testing.assert_allclose(stored, kept, rtol=2**-20)


def train_ahead(path: str, rank: int, rounds: int) -> list[np.ndarray]:
    with SparseClient.connect(path, rank, incarnation=5, timeout_s=60) as client:
        asked = []
        for number in range(rounds):
            keys, grads = gradients(rank, number)
            client.push("users", keys, grads)
            last = client.end_round()
            asked.append(client.ask("users", range(50)))
        last.wait()
        weights = [rows.wait() for rows in asked]
        assert last.done
        assert asked[-1].done
        assert client.finished_rounds == rounds
        return weights


def test_rows_of_each_round_come_in_order_where_nobody_waits(tmp_path):
    with job(tmp_path, workers=2) as path:
        found = {}
        other = threading.Thread(target=lambda: found.update(other=train_ahead(path, 1, 9)))
        other.start()
        found["own"] = train_ahead(path, 0, 9)
        other.join()
    expected = np.zeros((50, 4), np.float32)
    for number in range(9):
        for rank in range(2):
            keys, grads = gradients(rank, number)
            expected[keys] -= grads
        np.testing.assert_array_equal(found["own"][number], expected)
        np.testing.assert_array_equal(found["other"][number], expected)


def test_what_is_wrong_is_named_and_changes_nothing(tmp_path):
    with job(tmp_path, workers=1) as path:
        with pytest.raises(SparseError, match="no rank 1"):
            SparseClient.connect(path, 1)
        client = SparseClient.connect(path, 0)
        assert client.tables == {"users": 4, "ads": 4}
        for wrong, says in [
            (lambda: client.pull("cars", [0]), "no table 'cars': it has ads, users"),
            (lambda: client.pull("users", [50]), "row 50 is none"),
            (lambda: client.pull("users", [-1]), "key -1 is below 0"),
            (lambda: client.pull("users", [0.5]), "keys are a row of integers"),
            (lambda: client.push("users", [0], np.ones((1, 3))), r"these have the shape \[1, 3\]"),
            (lambda: client.push("users", [0], np.full((1, 4), np.inf)), "not finite"),
        ]:
            with pytest.raises(SparseError, match=says):
                wrong()
        assert client.pull("users", []).shape == (0, 4)
        client.push("users", [], np.empty((0, 4)))
        client.finish_round()
        np.testing.assert_array_equal(client.pull("users", [0, 49]), np.zeros((2, 4)))
        client.close()
        client.close()
        with pytest.raises(SparseError, match="closed"):
            client.finish_round()


def test_a_job_that_cannot_be_is_named():
    with pytest.raises(SparseError, match="workers are 99"):
        SparseClient.connect(sparse_job(TABLES, 99, ["127.0.0.1:1"]), 0)
    with pytest.raises(SparseError, match=r"node 0 at 127\.0\.0\.1:1 said nothing"):
        SparseClient.connect(sparse_job(TABLES, 1, ["127.0.0.1:1"]), 0, timeout_s=0.2)
