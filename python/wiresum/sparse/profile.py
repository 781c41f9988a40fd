"""What is known of a model's popularity: the curve of Zebra's Fig. 4, its knee, and how well samples find it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from wiresum.sparse.frequencies import Frequencies
from wiresum.sparse.randomness import Floats, Ints
from wiresum.sparse.trace import Trace

TOPS = (100, 1_000, 5_000, 10_000, 30_000, 60_000, 100_000)
"""Sizes of hot sets that a profile names."""
CURVE_POINTS = 60
HOT_ROWS = 30_000
"""Zebra's hot set for its two large models."""


@dataclass(frozen=True)
class Sampled:
    """How well a run over some of the samples finds the hot rows of all.

    Attributes:
        rate: share of the samples.
        knee: rows of its own hot list.
        precision: of the hot list of all samples, the share that is in that of some (Zebra §V-C).
        tau: Kendall's coefficient of both orders, over the rows that both lists have.
        common: number of these rows.
        top_precision: the same as `precision` for lists of a fixed length.
    """

    rate: float
    knee: int
    precision: float
    tau: float
    common: int
    top_precision: float


@dataclass(frozen=True)
class Profile:
    """The popularity of a trace's rows, as counted.

    Attributes:
        rows: of all tables.
        seen: rows that were updated at all.
        updates: by all workers in all rounds.
        shares: of the updates, by rows of the hot set.
        curve: rows, and the share of the updates that they get.
        knee: rows of the hot list by Zebra's rule.
        hot: length of fixed lists.
        sampled: by sampling rate.
    """

    rows: int
    seen: int
    updates: int
    shares: dict[int, float]
    curve: Sequence[tuple[int, float]]
    knee: int
    hot: int
    sampled: Sequence[Sampled]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def profile(
    trace: Trace,
    workers: int,
    rounds: int,
    rates: Sequence[float] = (),
    *,
    hot: int = HOT_ROWS,
    merged: bool = True,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> Profile:
    """Counts a run, and runs over some of its samples.

    Args:
        trace: what is drawn.
        workers: number of workers.
        rounds: number of rounds.
        rates: shares of the samples.
        hot: length of the lists that are compared at a fixed length.
        merged: whether a worker pushes a row once in a round; otherwise every lookup counts.
        seed: which samples.
        progress: told what is drawn.
    """
    count = partial(Frequencies.of, trace, workers, rounds, merged=merged, seed=seed, progress=progress)
    counted = count()
    sampled = [compared(counted, count(sampling=rate), rate, min(hot, len(counted.keys))) for rate in rates]
    points = np.unique(np.geomspace(1, len(counted.keys), CURVE_POINTS).astype(int))
    return Profile(
        rows=trace.rows,
        seen=len(counted.keys),
        updates=int(counted.updates.sum()),
        shares={top: counted.share(top) for top in TOPS if top <= trace.rows},
        curve=[(int(top), counted.share(int(top))) for top in points],
        knee=counted.knee(),
        hot=hot,
        sampled=sampled,
    )


def compared(whole: Frequencies, part: Frequencies, rate: float, hot: int) -> Sampled:
    """How well a part of the updates finds the hot rows of the whole."""
    knee = part.knee()
    ours, theirs = whole.keys[: whole.knee()], part.keys[:knee]
    common, in_ours, in_theirs = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    return Sampled(
        rate=rate,
        knee=knee,
        precision=precision(ours, theirs),
        tau=kendall(-whole.updates[in_ours].astype(float), -part.updates[in_theirs].astype(float)),
        common=len(common),
        top_precision=precision(whole.keys[:hot], part.keys[:hot]),
    )


def precision(wanted: Ints, found: Ints) -> float:
    """The share of the wanted keys that was found; 0 where none is wanted."""
    return float(np.isin(wanted, found).mean()) if len(wanted) else 0.0


def kendall(first: Floats, second: Floats) -> float:
    """Kendall's τ-b of two scores of the same rows: 1 for the same order, −1 for the reverse, 0 for no relation.

    Pairs with equal scores count half, as usual. Takes O(n log² n).

    Example:
        >>> kendall(np.array([1.0, 2, 3]), np.array([1.0, 3, 2]))
        0.3333333333333333
    """
    x, y = (np.unique(scores, return_inverse=True)[1] for scores in (first, second))
    order = np.lexsort((y, x))
    pairs = len(x) * (len(x) - 1) // 2
    in_x, in_y, in_both = _tied(x), _tied(y), _tied(x * (len(x) + 1) + y)
    discordant = _inversions(y[order])
    concordant = pairs - in_x - in_y + in_both - discordant
    norm = np.sqrt(float(pairs - in_x) * float(pairs - in_y))
    return float((concordant - discordant) / norm) if norm else 0.0


def _tied(values: Ints) -> int:
    counts = np.unique(values, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


def _inversions(values: Ints) -> int:
    """Pairs whose first is greater: bit by bit from the highest, among those that agree in the bits above."""
    total = 0
    for bit in reversed(range(int(values.max(initial=0)).bit_length())):
        order = np.argsort(values >> (bit + 1), kind="stable")
        ones = (values[order] >> bit) & 1
        groups = values[order] >> (bit + 1)
        before = np.cumsum(ones) - ones
        starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
        of_group = np.repeat(before[starts], np.diff(np.append(starts, len(groups))))
        total += int((before - of_group)[ones == 0].sum())
    return total
