"""The models that are trained, with their data: DLRM, skip-gram, NCF and factorization machines.

Batches follow from the trace, the step and the rank alone, so every method trains on the same ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from torch.nn import functional

import torch
from torch import nn
from wiresum.plan.tables import Table
from wiresum.sparse.criteo import Clicks, criteo
from wiresum.sparse.places import Places
from wiresum.sparse.popularity import Popularity
from wiresum.sparse.synthetic import Source
from wiresum.sparse.text import text
from wiresum.sparse.trace import Labelled, Trace

WIDTH = 16
NUMBERS = 13
"""Numerical features of Criteo's samples."""
USERS, ITEMS = (50_000, 0.6), (20_000, 1.0)
"""Rows and Zipf exponents of NCF's tables: together the 70,000 rows of Zebra's; MovieLens has such shapes."""
NEIGHBOURS = 3
"""Words on one side that skip-gram predicts."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples of one rank and step.

    Attributes:
        rows: (samples, tables) of each table.
        numbers: (samples, numbers) features; none for models that take none.
        labels: (samples,) clicks; none for models that predict words.
        step: its number.
    """

    rows: torch.Tensor
    numbers: torch.Tensor
    labels: torch.Tensor
    step: int


class Model(nn.Module):
    """Tables by the name of the trace's, without memory until they are given weights or sharded."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        made = {
            each.name: nn.Embedding(each.rows, each.dimension, sparse=True, device="meta")
            for each in trace.tables.tables
        }
        self.tables = nn.ModuleDict(made)

    def looked_up(self, batch: Batch) -> list[torch.Tensor]:
        """A row of each table for each sample."""
        return [table(batch.rows[:, number]) for number, table in enumerate(self.tables.values())]

    def prefetch(self, batch: Batch) -> None:
        """Tells sharded tables what the next step looks up."""
        for number, table in enumerate(self.tables.values()):
            table.prefetch(batch.rows[:, number])  # type: ignore[operator]


class ClickModel(Model, ABC):
    """Says how likely clicks are."""

    def forward(self, batch: Batch) -> torch.Tensor:
        """The loss of a batch."""
        return functional.binary_cross_entropy_with_logits(self.logits(batch), batch.labels)

    @abstractmethod
    def logits(self, batch: Batch) -> torch.Tensor:
        """(samples,) what the model says of clicks."""


def layers(*widths: int) -> nn.Sequential:
    """Dense layers with rectifiers between them."""
    made: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        made += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*made[:-1])


class Dlrm(ClickModel):
    """Rows and numbers interact in pairs (Naumov et al., arXiv:1906.00091)."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        features = len(self.tables) + 1
        self.bottom = layers(NUMBERS, 64, WIDTH)
        self.top = layers(features * (features - 1) // 2 + WIDTH, 64, 1)
        self.pairs = torch.triu_indices(features, features, offset=1)

    def logits(self, batch: Batch) -> torch.Tensor:
        """From all pairs of the rows and what the numbers become."""
        numbers = self.bottom(batch.numbers)
        vectors = torch.stack([numbers, *self.looked_up(batch)], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return torch.as_tensor(self.top(torch.cat([numbers, products], dim=1))[:, 0])


class Ncf(ClickModel):
    """Products of factors beside dense layers (He et al., WWW 2017)."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self.deep = layers(2 * WIDTH, 32, WIDTH)
        self.last = nn.Linear(2 * WIDTH, 1)

    def logits(self, batch: Batch) -> torch.Tensor:
        """From the products and the dense layers."""
        user, item = self.looked_up(batch)
        deep = self.deep(torch.cat([user, item], dim=1))
        return torch.as_tensor(self.last(torch.cat([user * item, deep], dim=1))[:, 0])


class FactorizationMachine(ClickModel):
    """Weights and products of factors (Rendle, ICDM 2010): a row is a weight, then factors."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self.bias = nn.Parameter(torch.zeros(1))

    def logits(self, batch: Batch) -> torch.Tensor:
        """The sum of weights and of products in pairs."""
        rows = torch.stack(self.looked_up(batch), dim=1)
        weights, factors = rows[:, :, 0], rows[:, :, 1:]
        products = (factors.sum(dim=1).square() - factors.square().sum(dim=1)).sum(dim=1) / 2
        return self.bias + weights.sum(dim=1) + products


class SkipGram(Model):
    """Words predict their neighbours, not words drawn by their frequency; one table for both (Mikolov et al., 2013)."""

    def forward(self, batch: Batch) -> torch.Tensor:
        """The loss of a batch of words in order."""
        (words,) = self.looked_up(batch)
        generator = torch.Generator().manual_seed(batch.step)
        scores = []
        for distance in range(1, NEIGHBOURS + 1):
            centre, drawn = words[:-distance], words[torch.randperm(len(words) - distance, generator=generator)]
            scores += [(centre * words[distance:]).sum(dim=1), -(centre * drawn).sum(dim=1)]
        return -functional.logsigmoid(torch.cat(scores)).mean()


@dataclass(frozen=True)
class Case:
    """A model and how it is trained.

    Attributes:
        make: the model of a trace.
        trace: of a scale of the tables, and samples of a worker in a step.
        optimizer: of the tables, as `shard_embeddings` takes it.
        settings: its hyperparameters.
        initial: how rows begin.
        batch: samples of a worker in a step, unless the command line says otherwise.
    """

    make: Callable[[Trace], Model]
    trace: Callable[[float, int], Trace]
    optimizer: type[torch.optim.Optimizer] | str
    settings: Mapping[str, Any] = field(default_factory=dict)
    initial: Mapping[str, float] = field(default_factory=lambda: {"uniform": 0.05})
    batch: int = 512


def ratings(scale: float, batch: int) -> Labelled:
    """Users and items, with clicks of a planted model."""
    sources = []
    for number, (name, (rows, exponent)) in enumerate({"user": USERS, "item": ITEMS}.items()):
        count = max(3, round(scale * rows))
        table = Table(name=name, rows=count, dimension=WIDTH, features=[name])
        sources.append(Source(table, Popularity.zipf(count, exponent), Places(count, number)))
    return Clicks(sources, batch, seed=0)


CASES: dict[str, Case] = {
    "dlrm": Case(Dlrm, lambda scale, batch: criteo(scale, batch, WIDTH), torch.optim.Adagrad, {"lr": 0.05}),
    "skip-gram": Case(SkipGram, lambda _, batch: text(batch, WIDTH), torch.optim.SGD, {"lr": 50.0}, batch=4096),
    "ncf": Case(Ncf, ratings, torch.optim.Adagrad, {"lr": 0.05}),
    "fm": Case(
        FactorizationMachine,
        lambda scale, batch: criteo(scale, batch, WIDTH + 1),
        "ftrl",
        {"lr": 0.1, "beta": 1.0, "l1": 1e-5, "l2": 0.0},
    ),
}


def batch_of(trace: Trace, step: int, rank: int, ranks: int) -> Batch:
    """What a rank trains on in a step; ranks take the samples in turn."""
    first = (step * ranks + rank) * trace.batch
    rows = torch.from_numpy(trace.batch_of(step, rank, ranks) - trace.first_keys[:-1])
    nothing = torch.empty(trace.batch, 0)
    if not isinstance(trace, Labelled):
        return Batch(rows, nothing, nothing, step)
    numbers = torch.from_numpy(trace.numbers(first, trace.batch).astype(np.float32))
    labels = torch.from_numpy(trace.labels(first, trace.batch).astype(np.float32))
    return Batch(rows, numbers, labels, step)
