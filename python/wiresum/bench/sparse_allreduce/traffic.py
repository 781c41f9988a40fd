"""What each method has to carry over the fullest direction of any link, counted on a trace's round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import torch
from wiresum.bench.limit import StarTraffic
from wiresum.bench.sparse_allreduce.balanced import owners
from wiresum.sparse.randomness import Ints

VALUE_BYTES = 4
GLOO_KEY_BYTES = 8
BALANCED_KEY_BYTES = 4


@dataclass(frozen=True, eq=False)
class Round:
    """What the ranks push.

    Attributes:
        keys: of each rank, distinct and ascending.
        dim: values of a row.
    """

    keys: Sequence[Ints]
    dim: int

    @property
    def union(self) -> Ints:
        """Keys that any rank has."""
        return np.unique(np.concatenate(list(self.keys)))

    def wiresum(self, payload_bytes: int) -> StarTraffic:
        """The union once up and down every link, as packets; what ranks tell each other of rows not counted."""
        return StarTraffic(len(self.union) * self.dim, len(self.keys), payload_bytes, VALUE_BYTES)

    def gloo_bytes(self) -> int:
        """Everybody else's keys and values, at the rank that has fewest itself."""
        counts = [len(keys) for keys in self.keys]
        return (sum(counts) - min(counts)) * (GLOO_KEY_BYTES + self.dim * VALUE_BYTES)

    def balanced_bytes(self) -> int:
        """Two steps, one after the other, and in each what is on the fullest direction of a link."""
        ranks = len(self.keys)
        owned = [owners(torch.from_numpy(keys), ranks).numpy() for keys in self.keys]
        sent = np.array([np.bincount(owner, minlength=ranks) for owner in owned])
        np.fill_diagonal(sent, 0)
        summed = np.bincount(owners(torch.from_numpy(self.union), ranks).numpy(), minlength=ranks)
        first = max(sent.sum(axis=0).max(), sent.sum(axis=1).max())
        second = max(summed.max() * (ranks - 1), summed.sum() - summed.min())
        return int(first + second) * (BALANCED_KEY_BYTES + self.dim * VALUE_BYTES)
