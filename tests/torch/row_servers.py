"""A double of the servers of tables: rows in this process, stepped by torch itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray

import torch
from torch import nn
from wiresum.errors import SparseError


class Done:
    """What was done at once."""

    done = True

    def __init__(self, rows: NDArray[np.float32] | None = None) -> None:
        self.rows = rows

    def wait(self, weights: NDArray[np.float32] | None) -> None:
        if weights is not None and self.rows is not None:
            weights[:] = self.rows


class Servers:
    """A `RowEngine` with rows in float32. With a group, each rank has all of them, and the mean of all gradients."""

    def __init__(
        self,
        weights: dict[str, torch.Tensor],
        optimizer: type[torch.optim.Optimizer],
        group: dist.ProcessGroup | None = None,
        **kwargs: Any,
    ) -> None:
        self.group = group
        self.tables = {name: (number, each.shape[1]) for number, (name, each) in enumerate(weights.items())}
        self.weights = [nn.Parameter(each.float().clone()) for each in weights.values()]
        self.optimizers = [optimizer([each], **kwargs) for each in self.weights]
        self.pushed: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[] for _ in self.weights]
        self.pulled: list[tuple[int, list[int]]] = []
        self.puts: list[tuple[int, NDArray[np.int64], NDArray[np.float32]]] = []
        self.calls: list[str] = []
        self.version = 0
        self.fails = False

    def pull(self, table: int, keys: NDArray[np.uint64], weights: NDArray[np.float32]) -> None:
        self.calls.append(f"pull {self.version}")
        self.pulled.append((table, keys.tolist()))
        weights[:] = self.weights[table].detach().numpy()[keys.astype(np.int64)]

    @property
    def stored(self) -> dict[str, int]:
        return {name: dim for name, (_, dim) in self.tables.items()}

    def pull_stored(self, table: int, keys: NDArray[np.uint64], values: NDArray[np.float32]) -> None:
        self.pull(table, keys, values)

    def put(self, table: int, keys: NDArray[np.uint64], values: NDArray[np.float32]) -> None:
        self.calls.append(f"put {self.version}")
        self.puts.append((table, keys.astype(np.int64), values.copy()))

    def push(self, table: int, keys: NDArray[np.uint64], grads: NDArray[np.float32]) -> None:
        self.calls.append(f"push {self.version}")
        self.pushed[table].append((torch.from_numpy(keys.astype(np.int64)), torch.from_numpy(grads.copy())))

    def finish_round(self) -> int:
        if self.fails:
            raise SparseError("server 0 is silent")
        for weight, optimizer, pushed in zip(self.weights, self.optimizers, self.pushed, strict=True):
            keys = torch.cat([keys for keys, _ in pushed] or [torch.empty(0, dtype=torch.int64)])
            grads = torch.cat([grads for _, grads in pushed] or [torch.empty(0, weight.shape[1])])
            weight.grad = torch.sparse_coo_tensor(keys[None], grads, weight.shape, check_invariants=True)
            if self.group is not None:
                dist.all_reduce(weight.grad, group=self.group)
                weight.grad /= self.group.size()
            optimizer.step()
            pushed.clear()
        for table, rows, values in self.puts:
            self.weights[table].data[rows] = torch.from_numpy(values)
        self.puts.clear()
        self.version += 1
        self.calls.append(f"round {self.version}")
        return self.version

    def ask(self, table: int, keys: NDArray[np.uint64]) -> Done:
        rows = np.empty((keys.size, self.weights[table].shape[1]), np.float32)
        self.pull(table, keys, rows)
        return Done(rows)

    def end_round(self) -> Done:
        self.finish_round()
        return Done()

    def statistics(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        self.calls.append("close")
