# SPDX-License-Identifier: Apache-2.0
"""Makes optimizers.json: what one step of each optimizer does to a row, according to its reference.

SGD, Adagrad and SparseAdam are torch's own, on sparse gradients. Row-wise Adagrad is FBGEMM's formula and
FTRL-proximal the paper's, written with torch's float32 operations. Run
`python spec/vectors/sparse/optimizers.py > spec/vectors/sparse/optimizers.json`. Torch's vector code for square roots
may be a unit in the last place away from the right one on some processors, and the vectors of such a run with it.

Every case has the optimizer as `wiresum_sparse::optimizer::Optimizer` reads it, and `steps`: the round, a row's weights
and state before the step, its gradient, and both after it. Numbers are the bits of float32.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch

ROWS, DIM, ROUNDS = 6, 5, 5
Row = tuple[torch.Tensor, torch.Tensor]


def _bits(values: torch.Tensor) -> list[int]:
    return [number & 0xFFFFFFFF for number in values.contiguous().view(torch.int32).flatten().tolist()]


def _sparse(rows: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return torch.sparse_coo_tensor(rows[None], values, (ROWS, DIM), is_coalesced=True, check_invariants=True)


def _gradient(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Some rows, in order, and their gradients, of sizes from 2^-12 to 2^4."""
    rows = torch.randperm(ROWS, generator=generator)[:4].sort().values
    sizes = 2.0 ** torch.randint(-12, 5, (4, 1), generator=generator)
    return rows, torch.randn(4, DIM, generator=generator) * sizes


def _of_torch(kind: Any, names: tuple[str, ...], **options: Any) -> list[dict[str, Any]]:
    """Steps of one of torch's optimizers, with its state under `names`."""
    generator = torch.Generator().manual_seed(1)
    weights = torch.nn.Parameter(torch.randn(ROWS, DIM, generator=generator))
    optimizer = kind([weights], **options)
    steps = []
    for number in range(1, ROUNDS + 1):
        rows, values = _gradient(generator)
        state = optimizer.state[weights]
        nothing = torch.full((ROWS, DIM), options.get("initial_accumulator_value", 0.0))
        before = [weights.detach().clone(), *(state.get(name, nothing).clone() for name in names)]
        weights.grad = _sparse(rows, values)
        optimizer.step()
        after = [weights.detach(), *(state[name] for name in names)]
        steps += [_step(number, row, values[place], before, after) for place, row in enumerate(rows.tolist())]
    return steps


def _step(
    number: int, row: int, values: torch.Tensor, before: list[torch.Tensor], after: list[torch.Tensor]
) -> dict[str, Any]:
    def record(tensors: list[torch.Tensor]) -> dict[str, Any]:
        state = [number for tensor in tensors[1:] for number in _bits(tensor[row])]
        return {"weights": _bits(tensors[0][row]), "state": state}

    return {"round": number, "gradient": _bits(values), "before": record(before), "after": record(after)}


def _of_formula(
    state_len: int, change: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Row]
) -> list[dict[str, Any]]:
    """Steps of a formula for one row: (weights, state, gradient) to weights and state."""
    generator = torch.Generator().manual_seed(2)
    weights, state = torch.randn(ROWS, DIM, generator=generator), torch.zeros(ROWS, state_len)
    steps = []
    for number in range(1, ROUNDS + 1):
        rows, values = _gradient(generator)
        before = [weights.clone(), state.clone()]
        for place, row in enumerate(rows.tolist()):
            weights[row], state[row] = change(weights[row].clone(), state[row].clone(), values[place])
        steps += [
            _step(number, row, values[place], before, [weights, state]) for place, row in enumerate(rows.tolist())
        ]
    return steps


def _root(values: torch.Tensor) -> torch.Tensor:
    """Square roots, correctly rounded: torch's vector code for float32 may be a unit in the last place away."""
    return values.double().sqrt().float()


def _row_wise_adagrad(lr: float, eps: float) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Row]:
    def change(weights: torch.Tensor, state: torch.Tensor, gradient: torch.Tensor) -> Row:
        state = state + gradient.square().sum() / DIM
        return weights - (lr / (_root(state) + eps)) * gradient, state

    return change


def _ftrl(lr: float, beta: float, l1: float, l2: float) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Row]:
    def change(weights: torch.Tensor, state: torch.Tensor, gradient: torch.Tensor) -> Row:
        z, n = state[:DIM], state[DIM:]
        grown = n + gradient * gradient
        sigma = (_root(grown) - _root(n)) / lr
        z = z + (gradient - sigma * weights)
        proximal = -(z - z.sign() * l1) / ((beta + _root(grown)) / lr + l2)
        return torch.where(z.abs() <= l1, torch.zeros(()), proximal), torch.cat([z, grown])

    return change


def _cases() -> list[dict[str, Any]]:
    adam = {"lr": 0.01, "betas": (0.9, 0.999), "eps": 1e-8}
    decaying = {"lr": 0.05, "lr_decay": 0.01, "initial_accumulator_value": 0.1}
    of_ftrl = {"lr": 0.1, "beta": 1.0, "l1": 0.25, "l2": 0.001}
    of_rows = {"lr": 0.02, "eps": 1e-8}
    return [
        {"optimizer": {"name": "sgd", "lr": 0.1}, "steps": _of_torch(torch.optim.SGD, (), lr=0.1)},
        {"optimizer": {"name": "adagrad", "lr": 0.02}, "steps": _of_torch(torch.optim.Adagrad, ("sum",), lr=0.02)},
        {
            "optimizer": {"name": "adagrad", **decaying},
            "steps": _of_torch(torch.optim.Adagrad, ("sum",), **decaying),
        },
        {
            "optimizer": {"name": "sparse-adam", **adam},
            "steps": _of_torch(torch.optim.SparseAdam, ("exp_avg", "exp_avg_sq"), **adam),
        },
        {"optimizer": {"name": "row-wise-adagrad", **of_rows}, "steps": _of_formula(1, _row_wise_adagrad(**of_rows))},
        {"optimizer": {"name": "ftrl", **of_ftrl}, "steps": _of_formula(2 * DIM, _ftrl(**of_ftrl))},
    ]


if __name__ == "__main__":
    print(json.dumps(_cases(), indent=None, separators=(",", ":")).replace('{"optimizer"', '\n{"optimizer"'))
