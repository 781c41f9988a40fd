"""Where sub-models that lost their place are summed now."""

from __future__ import annotations

import numpy as np

from wiresum.plan.assignment.instance import PS, Instance
from wiresum.topology.graph import UNREACHABLE, Bools, Floats, Ints


class Openings:
    """What is open for which sub-models, and the memory that is left.

    Args:
        instance: the network now.
        opened: (aggregators, sub-models) where they are summed already.
        exclusive: whether each takes memory of its own.
    """

    def __init__(self, instance: Instance, opened: Bools, *, exclusive: bool) -> None:
        self._instance = instance
        self._opened = opened
        self._exclusive = exclusive
        self._free: Floats = instance.memory_bytes - opened @ instance.sizes
        hops = instance.groups.hops.astype(np.int64)
        self._useful = np.where(hops <= hops[:, [PS]], hops, UNREACHABLE)
        self._climb = instance.hops_to_server.astype(np.int64)

    def place(self, target: Ints, lost: Bools) -> Ints:
        """The targets, with another one wherever one is lost; the largest sub-models are placed first."""
        placed = target.copy()
        columns = np.flatnonzero(lost.any(axis=0))
        for sub_model in columns[np.argsort(-self._instance.sizes[columns], kind="stable")]:
            workers = np.flatnonzero(lost[:, sub_model])
            placed[workers, sub_model] = self._place(int(sub_model), workers)
        return placed

    def _place(self, sub_model: int, workers: Ints) -> Ints:
        of = self._instance.groups.of[workers]
        groups, sizes = np.unique(of, return_counts=True)
        useful, column = self._useful[groups], self._opened[:, sub_model]
        reach = useful[:, column].min(axis=1)
        fits = self._free >= self._instance.sizes[sub_model] if self._exclusive else np.full(len(column), True)
        while True:
            saved = sizes @ np.maximum(0, reach[:, None] - useful) - self._climb
            best = int(np.where(fits & ~column, saved, 0).argmax())
            if saved[best] <= 0 or column[best] or not fits[best]:
                break
            column[best] = True
            self._free[best] -= self._instance.sizes[sub_model]
            reach = np.minimum(reach, useful[:, best])
        # The parameter server only where it alone is nearest.
        order = np.roll(np.arange(len(column)), -1)
        nearest = order[np.where(column[order], useful[:, order], UNREACHABLE).argmin(axis=1)]
        return np.asarray(nearest[np.searchsorted(groups, of)], dtype=np.int64)
