"""The rates that there can be: with whole flows, the rate is some capacity over some number of flows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wiresum.topology.graph import Floats

ROUNDING = 1e-9
"""Relative, so that a capacity divided by a rate that is an n-th of it holds n flows."""


def candidates(capacity: Floats, flows: int) -> Floats:
    """Every capacity over 1, 2, … flows, ascending."""
    finite = np.unique(capacity[np.isfinite(capacity)])
    return np.unique(finite[:, None] / np.arange(1, flows + 1))


def whole_flows(capacity: Floats, rate: float, flows: int) -> Floats:
    """How many flows of this rate each capacity holds, `flows` at most."""
    return np.minimum(np.floor(capacity / rate * (1 + ROUNDING)), flows)


def highest(rates: Floats, holds: Callable[[float], bool]) -> int:
    """Index of the highest rate that holds, −1 if none does; what holds at a rate holds at all lower ones.

    The highest is asked first, as bounds are often reached.
    """
    low, high, middle = -1, len(rates), len(rates) - 1
    while low < middle < high:
        low, high = (middle, high) if holds(float(rates[middle])) else (low, middle)
        middle = (low + high) // 2
    return low
