"""Clicks as Criteo publishes them, drawn: 26 tables with its numbers of rows, and a planted model that can be learned.

The planted model gives every row a weight, so loss and AUC of a training mean something: its own AUC is what no
training can pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from wiresum.plan.models.recommendation import CRITEO_NUMBERS, CRITEO_ROWS, DLRM_WIDTH
from wiresum.plan.tables import Optimizer, Table
from wiresum.sparse.randomness import Floats, Ints, RandomStream, hashed, uniforms
from wiresum.sparse.synthetic import Synthetic, sources_of
from wiresum.sparse.trace import Labelled

EXPONENT = 1.1
FEWEST_ROWS = 3
"""Rows of a scaled table: the smallest real one has as many."""
CENTRED_ROWS = 1000
"""Ranks of a table whose weights are averaged; those beyond have a chance below 10⁻⁴."""
BIAS, ROW_WEIGHT, NUMBER_WEIGHT = -1.45, 0.3, 0.2
"""With these a quarter of the samples are clicks, as in Criteo's data set."""


class Clicks(Synthetic, Labelled):
    """Samples with numbers and a label."""

    def numbers(self, first: int, count: int) -> Floats:
        """(count, 13) numerical features, from −√3 to √3 with variance 1."""
        drawn = uniforms(self.seed, RandomStream.NUMBERS, first * CRITEO_NUMBERS, count * CRITEO_NUMBERS)
        return np.asarray(np.sqrt(3.0) * (2 * drawn.reshape(count, CRITEO_NUMBERS) - 1))

    def labels(self, first: int, count: int, round: int = 0) -> Floats:
        """(count,) 1 for a click, 0 for none, by the planted model's chance."""
        drawn = uniforms(self.seed, RandomStream.CLICKS, first, count)
        return (drawn < 1 / (1 + np.exp(-self.logits(first, count, round)))).astype(np.float64)

    def logits(self, first: int, count: int, round: int = 0) -> Floats:
        """(count,) what the planted model says of the samples."""
        of_numbers = NUMBER_WEIGHT * np.where(np.arange(CRITEO_NUMBERS) % 2, -1.0, 1.0)
        of_rows = _weights(self.samples(first, count, round), self.seed).sum(axis=1)
        return np.asarray(BIAS - self._mean + of_rows + self.numbers(first, count) @ of_numbers)

    @cached_property
    def _mean(self) -> float:
        """What popular rows add to a mean sample: without it, a seed would decide how many clicks there are."""
        mean = 0.0
        for source, first_key in zip(self.sources, self.first_keys, strict=False):
            ranks = np.arange(min(CENTRED_ROWS, source.table.rows))
            weights = _weights(source.places.rows(ranks, 0) + first_key, self.seed)
            mean += float(weights @ source.popularity.chance(ranks))
        return mean


def criteo(scale: float = 1.0, batch: int = 512, dim: int = DLRM_WIDTH, s: float = EXPONENT, seed: int = 0) -> Labelled:
    """Criteo-like clicks.

    Args:
        scale: of each table's rows; none has fewer than 3.
        batch: samples of a worker in a round.
        dim: values of a row.
        s: exponent of each table's power law.
        seed: seed of everything that is drawn.

    Example:
        >>> criteo(scale=0.1).rows
        3376260
    """
    made = tables([max(FEWEST_ROWS, round(scale * full)) for full in CRITEO_ROWS], dim)
    return Clicks(sources_of(made, s, seed), batch, seed)


def tables(rows: Sequence[int], dim: int) -> list[Table]:
    """A table for each categorical feature, `C1` and so on, with these numbers of rows."""
    names = [f"C{number}" for number in range(1, len(rows) + 1)]
    optimizer = Optimizer(name="row-wise-adagrad")
    return [
        Table(name=name, rows=count, dimension=dim, features=[name], optimizer=optimizer)
        for name, count in zip(names, rows, strict=True)
    ]


def _weights(keys: Ints, seed: int) -> Floats:
    """A weight for each row, the sum of four uniform numbers: as good as normal here."""
    bits = hashed(keys, seed)
    total = sum(((bits >> np.uint64(16 * part)) & np.uint64(0xFFFF)).astype(np.float64) for part in range(4))
    return np.asarray((total / 0xFFFF - 2.0) * np.sqrt(3.0) * ROW_WEIGHT)
