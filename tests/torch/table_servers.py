"""`wiresum-node --tables` on loopback ports, for worlds whose rows live at real servers; and one process that sums."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiresum.deploy.hosts import LOOPBACK, ThisHost, free_ports
from wiresum.deploy.tables import TableDaemons
from wiresum.sparse.job import sparse_job

Weights = NDArray[np.float32]
Pushed = Sequence[tuple[NDArray[np.int64], Weights]]
"""Keys and gradients that one rank has pushed in a round for a table."""

UNIT = 2.0**45
"""Units of a lane in 1 (spec/sparse.md, "Numbers")."""
EXACT = 2.0**53
"""Sums of lanes below are exact as float64."""


def table_servers(
    folder: Path,
    tables: Sequence[Mapping[str, Any]],
    workers: int,
    servers: int = 2,
    hot: str | None = None,
) -> TableDaemons:
    """Servers of tables, and a switch if rows are hot, for a `with` block; `job_file` is what the ranks need."""
    addresses = [f"{LOOPBACK}:{port}" for port in free_ports(servers + bool(hot), socket.SOCK_DGRAM)]
    text = sparse_job(tables, workers, addresses[:servers], addresses[servers:], hot=hot, secret="07" * 32)
    return TableDaemons(ThisHost(folder), text, [f"n{number}" for number in range(len(addresses))])


def mean(rows: int, dim: int, ranks: Sequence[Pushed]) -> tuple[NDArray[np.int64], Weights]:
    """The keys of a round and the mean of all ranks' gradients: whole numbers of units, rounded once, then divided."""
    lanes = np.zeros((rows, dim))
    touched = np.zeros(rows, dtype=bool)
    for pushed in ranks:
        merged = np.zeros((rows, dim), np.float32)
        for keys, grads in pushed:
            touched[keys] = True
            for key, grad in zip(keys, grads, strict=True):
                merged[key] += grad
        lanes += np.trunc(merged.astype(np.float64) * UNIT)
    assert np.abs(lanes).max() < EXACT
    keys = np.flatnonzero(touched)
    return keys, (lanes[keys] / UNIT).astype(np.float32) / np.float32(len(ranks))


def fused(weights: Weights, rate: float, change: Weights) -> Weights:
    """w + rate · x, rounded once."""
    return (np.float64(np.float32(rate)) * change.astype(np.float64) + weights).astype(np.float32)


class OneProcess:
    """A table, all of whose rows are here: steps as spec/sparse.md has them, in NumPy."""

    def __init__(self, weights: Weights, optimizer: Mapping[str, Any]) -> None:
        self.weights = weights.copy()
        self.optimizer = optimizer
        self.first = np.zeros_like(weights)
        self.second = np.zeros_like(weights)
        self.rounds = 0

    def step(self, ranks: Sequence[Pushed]) -> None:
        """A round."""
        self.rounds += 1
        keys, grads = mean(*self.weights.shape, ranks)
        {"sgd": self._sgd, "adagrad": self._adagrad, "sparse-adam": self._sparse_adam}[self.optimizer["name"]](
            keys, grads
        )

    def _sgd(self, keys: NDArray[np.int64], grads: Weights) -> None:
        self.weights[keys] = fused(self.weights[keys], -self.optimizer["lr"], grads)

    def _adagrad(self, keys: NDArray[np.int64], grads: Weights) -> None:
        self.first[keys] += grads * grads
        change = grads / (np.sqrt(self.first[keys]) + np.float32(self.optimizer["eps"]))
        self.weights[keys] = fused(self.weights[keys], -self.optimizer["lr"], change)

    def _sparse_adam(self, keys: NDArray[np.int64], grads: Weights) -> None:
        beta1, beta2 = self.optimizer["betas"]
        self.first[keys] += (grads - self.first[keys]) * np.float32(1 - beta1)
        self.second[keys] += (grads * grads - self.second[keys]) * np.float32(1 - beta2)
        rate = -self.optimizer["lr"] * (1 - beta2**self.rounds) ** 0.5 / (1 - beta1**self.rounds)
        change = self.first[keys] / (np.sqrt(self.second[keys]) + np.float32(self.optimizer["eps"]))
        self.weights[keys] += np.float32(rate) * change
