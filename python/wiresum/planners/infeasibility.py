"""Why there is no plan: the smallest set of constraints that cannot hold together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

from wiresum.errors import PlanError
from wiresum.planners.forest.instance import Instance

C = TypeVar("C")
CLOSE = 1e-9
"""Shares that add up to less than whole by this are whole."""


def smallest_conflict(constraints: Iterable[C], holds_without: Callable[[Set[C]], bool]) -> list[C]:
    """A set of constraints that cannot hold together, of which none can be left out (deletion filter).

    All of them, then half of them, and so on down to single ones are dropped for good if what is left is still
    infeasible. Where k of n constraints are needed, that takes about 2 k log n questions, and never more than 2 n.
    Other such sets may have fewer members.

    Args:
        constraints: that cannot hold together.
        holds_without: whether there is an answer when these are dropped.

    Source: Chinneck & Dravnieks, "Locating minimal infeasible constraint sets in linear programs", 1991.

    Example:
        >>> least = {"a": 3, "b": 5, "c": 1}  # of a number that is at most 4
        >>> smallest_conflict(least, lambda dropped: all(least[name] <= 4 for name in least if name not in dropped))
        ['b']
    """
    dropped: set[C] = set()
    needed: list[C] = []
    runs = [list(constraints)]
    while runs:
        run = runs.pop()
        if not holds_without(dropped | set(run)):
            dropped |= set(run)
        elif len(run) == 1:
            needed += run
        else:
            half = len(run) // 2
            runs += [run[half:], run[:half]]
    return needed


@dataclass(frozen=True)
class NoTree:
    """Trees over servers that cannot be: how many nodes each needs, and what memory allows.

    A node has `fan_in` children at most, so a tree over n workers needs k nodes with k · fan_in − (k − 1) ≥ n. With
    shares of the gradient that nodes hold at most, there is a mixture of trees if these add up to k or more.

    Attributes:
        instance: the question.
        servers: names.
    """

    instance: Instance
    servers: Sequence[str]

    @property
    def nodes_in_a_tree(self) -> int:
        """K."""
        workers = sum(group.size for group in self.instance.groups)
        return max(1, -(-(workers - 1) // (self.instance.fan_in - 1)))

    def holds_without(self, dropped: Set[str]) -> bool:
        """Whether there are trees when the memories of these servers bound nothing."""
        rooms = [1.0 if name in dropped else min(1.0, room) for name, room in self._rooms]
        return sum(rooms) >= self.nodes_in_a_tree - CLOSE

    @property
    def _rooms(self) -> list[tuple[str, float]]:
        return list(zip(self.servers, self.instance.room, strict=True))

    def error(self, topology: str) -> PlanError:
        """The cause, and what would help."""
        workers, count = sum(group.size for group in self.instance.groups), self.nodes_in_a_tree
        if count > len(self.servers):
            return PlanError(
                f"{workers} workers need {count} nodes that sum, with {self.instance.fan_in} children each, and "
                f"topology {topology} has {len(self.servers)} that all of them reach; add some"
            )
        limited = [name for name, room in self._rooms if room < 1]
        conflict = smallest_conflict(limited, self.holds_without)
        rooms = dict(self._rooms)
        parts = ", ".join(f"{name} {100 * rooms[name]:.3g} %" for name in conflict)
        return PlanError(
            f"the nodes that sum in topology {topology} have too little memory for a gradient: {workers} workers need "
            f"{count} in every tree, and these hold only a part of it: {parts}; free memory at one of them, lower "
            "`gradient_bytes`, or use the policy `pool`"
        )
