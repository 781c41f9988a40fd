"""What rows begin with before their first gradient, as servers have it (spec/sparse.md, "Initial values")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiresum.sparse.randomness import GAMMA, Ints, mixed

PARTS, PART_BITS = 8, 16
"""Numbers of 16 bits that make one normal number, four from a word."""
DEVIATION = np.float32(53_509.91)
"""Standard deviation of the sum of the parts: 2¹⁶ · √(8 / 12)."""
UNIFORM_BITS = 24


def initial_rows(table: Mapping[str, Any], keys: Ints) -> NDArray[np.float32]:
    """The weights of rows that never changed, with the bits that servers give them.

    Args:
        table: as a job's file has it.
        keys: of the rows.

    Returns:
        An array [keys, dim].
    """
    dim, initial = int(table["dim"]), table["initial"]
    if initial == "zeros":
        return np.zeros((len(keys), dim), np.float32)
    seeds = _mix(_mix(_mix(np.array([table["seed"]], np.uint64)) ^ np.uint64(table["id"])) ^ keys.astype(np.uint64))
    if "uniform" in initial:
        words = _words(seeds, dim)
        odd = 2 * (words & np.uint64((1 << UNIFORM_BITS) - 1)).astype(np.int64) + 1 - (1 << UNIFORM_BITS)
        return np.asarray(odd.astype(np.float32) / np.float32(1 << UNIFORM_BITS) * np.float32(initial["uniform"]))
    words = _words(seeds, 2 * dim).reshape(len(keys), dim, 2)
    parts = sum((words >> np.uint64(PART_BITS * part) & np.uint64(0xFFFF)).astype(np.int64) for part in range(4))
    twice = 2 * np.asarray(parts).sum(axis=2) - PARTS * 0xFFFF
    return np.asarray(twice.astype(np.float32) / (np.float32(2) * DEVIATION) * np.float32(initial["normal"]))


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The next number of SplitMix64 after a state."""
    return mixed(x + np.uint64(GAMMA))


def _words(seeds: NDArray[np.uint64], count: int) -> NDArray[np.uint64]:
    """(seeds, count) the numbers of a sequence for each seed."""
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GAMMA)
    return mixed(seeds[:, None] + steps)
