"""Traces that are drawn from power laws; those of Zebra's models are fitted to its Fig. 4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from wiresum.plan.tables import Table, Tables
from wiresum.sparse.places import Changes, Drift, Places
from wiresum.sparse.popularity import Piece, Popularity
from wiresum.sparse.randomness import Ints, RandomStream, uniforms
from wiresum.sparse.trace import Trace

OA, SE, DEEPLIGHT = (150_000_000, 0.975), (9_000_000, 1.024), (320_000, 0.617)
"""Rows, and the exponent with which the top 30,000 get 50, 70 and 40 % of all touches (Zebra §III-A)."""
NCF = (Piece(100, 0.6, 0.40), Piece(70_000, 0.4234, 0.60))
"""The top 100 get 40 %, the top 5,000 52 %: “over half”; no single power law does both. 0.6 is a guess."""
LAWS: dict[str, Callable[[], Popularity]] = {
    "oa": partial(Popularity.zipf, *OA),
    "se": partial(Popularity.zipf, *SE),
    "deeplight": partial(Popularity.zipf, *DEEPLIGHT),
    "ncf": partial(Popularity, NCF),
}
"""Popularity of the rows of Zebra's models, by the name of the trace."""
DIMENSION, LOOKUPS, BATCH = 16, 100, 256
"""Zebra states none of the three."""


@dataclass(frozen=True, eq=False)
class Source:
    """A table, and how it is looked up.

    Attributes:
        table: with a feature for each lookup of a sample.
        popularity: of its ranks.
        places: rows of its ranks.
    """

    table: Table
    popularity: Popularity
    places: Places


class Synthetic(Trace):
    """Lookups that are drawn one by one, each from the popularity of its table.

    Args:
        sources: the tables.
        batch: samples of a worker in a round.
        seed: of everything that is drawn.
    """

    def __init__(self, sources: Sequence[Source], batch: int, seed: int) -> None:
        super().__init__(Tables(tables=[source.table for source in sources]), batch)
        self.sources = sources
        self.seed = seed

    def samples(self, first: int, count: int, round: int = 0) -> Ints:
        """(count, lookups) keys; numbers of the random sequence go by sample, so parts fit together."""
        drawn = uniforms(self.seed, RandomStream.ROWS, first * self.lookups, count * self.lookups)
        drawn = drawn.reshape(count, self.lookups)
        keys = np.empty(drawn.shape, dtype=np.int64)
        column = 0
        for source, first_key in zip(self.sources, self.first_keys, strict=False):
            columns = slice(column, column := column + len(source.table.features))
            ranks = source.popularity.draw(drawn[:, columns].ravel())
            keys[:, columns] = (source.places.rows(ranks, round) + first_key).reshape(count, len(source.table.features))
        return keys

    def ranks(self, keys: Ints, round: int = 0) -> Ints:
        """Ranks among the rows of all tables; of rows that are as popular, those of the first table go first."""
        tables, ranks = self.table_of(keys), np.empty(len(keys), dtype=np.int64)
        for index, (source, first_key) in enumerate(zip(self.sources, self.first_keys, strict=False)):
            mine = tables == index
            own = source.places.ranks(keys[mine] - first_key, round)
            ranks[mine] = own + self._ahead(index, self._weight(index, own))
        return ranks

    def _ahead(self, index: int, weights: np.ndarray) -> Ints:
        """Rows of other tables that come before rows of this one with these weights."""
        ahead = np.zeros(len(weights), dtype=np.int64)
        for other, source in enumerate(self.sources):
            if other != index:
                ahead += source.popularity.above(weights / len(source.table.features), or_equal=other < index)
        return ahead

    def _weight(self, index: int, ranks: Ints) -> np.ndarray:
        """Touches of a sample."""
        source = self.sources[index]
        return source.popularity.chance(ranks) * len(source.table.features)

    def top(self, count: int, round: int = 0) -> Ints:
        """The keys of the first so many ranks."""
        keys, weights = [], []
        for index, (source, first_key) in enumerate(zip(self.sources, self.first_keys, strict=False)):
            ranks = np.arange(min(count, source.table.rows))
            keys.append(source.places.rows(ranks, round) + first_key)
            weights.append(self._weight(index, ranks))
        # Stable: of equal weights the first table's go first, as in `ranks`.
        order = np.argsort(-np.concatenate(weights), kind="stable")[:count]
        return np.asarray(np.concatenate(keys)[order])


def zipf(  # noqa: PLR0917 - named in a description, one by one
    rows: int = 1_000_000,
    s: float = 1.05,
    features: int = LOOKUPS,
    batch: int = BATCH,
    dim: int = DIMENSION,
    drift: float = 0.0,
    top: int = Changes().top,
    day: int = 0,
    swing: float = 0.0,
    seed: int = 0,
) -> Trace:
    """One table, rows of which are touched by rank⁻ˢ.

    Args:
        rows: rows of the table.
        s: exponent of the power law.
        features: rows that a sample looks up.
        batch: samples of a worker in a round.
        dim: values of a row.
        drift: share of the top ranks that fresh rows replace in a round.
        top: ranks that change.
        day: rounds of a day; 0: no evenings.
        swing: share of the top ranks that is another in the evening.
        seed: seed of everything that is drawn.

    Raises:
        TraceError: more ranks are to change than half the rows.
    """
    return _one_table(
        Popularity.zipf(rows, s),
        features=features,
        batch=batch,
        dim=dim,
        changes=Changes(drift, top, day, swing),
        seed=seed,
    )


def of_tables(tables: Tables, batch: int = 512, s: float = 1.1, seed: int = 0) -> Trace:
    """Samples that look up one row for each feature of some tables, touched by rank⁻ˢ as Criteo's are.

    Args:
        tables: of a model.
        batch: samples of a worker in a round.
        s: exponent of each table's power law.
        seed: seed of everything that is drawn.
    """
    return Synthetic(sources_of(tables.tables, s, seed), batch, seed)


def sources_of(tables: Sequence[Table], s: float, seed: int) -> list[Source]:
    """Tables whose rows are touched by rank⁻ˢ, each in an order of its own."""
    return [
        Source(table, Popularity.zipf(table.rows, s), Places(table.rows, seed + number))
        for number, table in enumerate(tables, start=1)
    ]


def _of_zebra(
    popularity: Callable[[], Popularity],
    *,
    features: int = LOOKUPS,
    batch: int = BATCH,
    dim: int = DIMENSION,
    drift: float = 0.0,
    seed: int = 0,
) -> Trace:
    """One of the models of Zebra's Fig. 4.

    Args:
        popularity: of its rows.
        features: rows that a sample looks up.
        batch: samples of a worker in a round.
        dim: values of a row.
        drift: share of the top 20,000 ranks that fresh rows replace in a round.
        seed: seed of everything that is drawn.
    """
    return _one_table(popularity(), features=features, batch=batch, dim=dim, changes=Changes(drift), seed=seed)


oa = partial(_of_zebra, LAWS["oa"])
"""Online advertising: 150 million rows."""
se = partial(_of_zebra, LAWS["se"])
"""Search engine: 9 million rows."""
deeplight = partial(_of_zebra, LAWS["deeplight"])
"""DeepLight: 320,000 rows."""
ncf = partial(_of_zebra, LAWS["ncf"])
"""NCF: 70,000 rows, and two power laws."""


def _one_table(popularity: Popularity, *, features: int, batch: int, dim: int, changes: Changes, seed: int) -> Trace:
    rows = popularity.rows
    drift = Drift(rows, changes, seed) if changes.replaced or (changes.day and changes.swing) else None
    table = Table(name="rows", rows=rows, dimension=dim, features=[f"f{index}" for index in range(features)])
    return Synthetic([Source(table, popularity, Places(rows, seed, drift))], batch, seed)
