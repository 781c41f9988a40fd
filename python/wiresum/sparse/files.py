"""The original files of data sets, where somebody has them: Criteo's clicks and MovieLens's ratings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from wiresum.errors import TraceError
from wiresum.plan.models.recommendation import CRITEO_NUMBERS, CRITEO_ROWS, DLRM_WIDTH
from wiresum.plan.tables import Table, Tables
from wiresum.sparse.criteo import tables as criteo_tables
from wiresum.sparse.observed import Observed
from wiresum.sparse.randomness import Floats, Ints
from wiresum.sparse.synthetic import DIMENSION
from wiresum.sparse.trace import Labelled

CRITEO_FILE = "train.txt"
MOVIELENS_FILES = {"ratings.csv": ",", "ratings.dat": "::", "u.data": "\t"}
"""By name of the file, what stands between its fields: the sets from 20M on, those of 1M and 10M, and that of 100K."""
SAMPLES = 1_000_000
"""Lines of a file that are read where no other number is given: 26 keys each are 208 MB."""
RATING_FIELDS = 4


class CriteoFile(Observed, Labelled):
    """Clicks from Criteo's file.

    Args:
        tables: the 26 features.
        batch: samples of a worker in a round.
        keys: (samples, 26) rows.
        numbers: (samples, 13) as log(1 + x), 0 where missing.
        labels: (samples,) 1 for a click.
    """

    def __init__(self, tables: Tables, batch: int, keys: Ints, numbers: Floats, labels: Floats) -> None:
        super().__init__(tables, batch, keys)
        self._numbers, self._labels = numbers, labels

    def numbers(self, first: int, count: int) -> Floats:
        """(count, 13) numerical features of the samples."""
        return np.asarray(self._numbers[np.arange(first, first + count) % len(self._numbers)])

    def labels(self, first: int, count: int, round: int = 0) -> Floats:
        """(count,) 1 for a click, 0 for none."""
        return np.asarray(self._labels[np.arange(first, first + count) % len(self._labels)])


def criteo(data_dir: Path, batch: int = 512, dim: int = DLRM_WIDTH, samples: int = SAMPLES, seed: int = 0) -> Labelled:
    """The first samples of Criteo's `train.txt`: a label, 13 numbers and 26 hashes in a line, between tabs.

    A hash finds its row by its remainder, so that no list of all hashes is kept.

    Args:
        data_dir: folder of the file.
        batch: samples of a worker in a round.
        dim: values of a row.
        samples: most lines that are read.
        seed: without effect, as the file has an order.

    Raises:
        TraceError: there is no such file, or a line of it is of another form; the message names the line.
    """
    path = _existing(data_dir, [CRITEO_FILE], "criteo")
    firsts = np.cumsum([0, *CRITEO_ROWS])
    keys, numbers, labels = [], [], []
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        for number, line in enumerate(islice(lines, samples), start=1):
            label, own, hashes = _click(line, f"{path}:{number}")
            labels.append(label)
            numbers.append(own)
            keys.append(hashes % np.array(CRITEO_ROWS) + firsts[:-1])
    _require_samples(len(keys), path)
    tables = Tables(tables=criteo_tables(CRITEO_ROWS, dim))
    return CriteoFile(tables, batch, np.stack(keys), np.stack(numbers), np.array(labels))


def _click(line: str, where: str) -> tuple[float, Floats, Ints]:
    fields = line.rstrip("\n").split("\t")
    try:
        label = float(fields[0])
        numbers = np.array([float(text or 0) for text in fields[1 : CRITEO_NUMBERS + 1]])
        hashes = np.array([int(text or "0", 16) for text in fields[CRITEO_NUMBERS + 1 :]], dtype=np.int64)
    except ValueError as bad:
        raise TraceError(f"{where}: {bad}; give a label, 13 numbers and 26 hashes between tabs") from None
    if len(hashes) != len(CRITEO_ROWS) or label not in {0.0, 1.0}:
        raise TraceError(f"{where}: {len(fields)} fields, label {fields[0]}; give 0 or 1, 13 numbers and 26 hashes")
    return label, np.log1p(np.maximum(numbers, 0)), hashes


def movielens(
    data_dir: Path, batch: int = 4096, dim: int = DIMENSION, samples: int = 20 * SAMPLES, seed: int = 0
) -> Observed:
    """The first ratings of a MovieLens data set: a user and an item each, in the file's order.

    Args:
        data_dir: folder of `ratings.csv`, `ratings.dat` or `u.data`.
        batch: ratings of a worker in a round.
        dim: values of a row.
        samples: most ratings that are read.
        seed: without effect, as the file has an order.

    Raises:
        TraceError: there is no such file, or a line of it is of another form; the message names the line.
    """
    path = _existing(data_dir, MOVIELENS_FILES, "movielens")
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        flat = np.fromiter(_ratings(islice(lines, samples + 1), path), dtype=np.int64)
    _require_samples(len(flat), path)
    users, items = (np.unique(ids, return_inverse=True) for ids in flat.reshape(-1, 2).T)
    tables = [
        Table(name=name, rows=len(found[0]), dimension=dim, features=[name])
        for name, found in (("users", users), ("items", items))
    ]
    return Observed(Tables(tables=tables), batch, np.stack([users[1], items[1] + len(users[0])], axis=1))


def _ratings(lines: Iterator[str], path: Path) -> Iterator[int]:
    """User and item of each line, one after the other."""
    between = MOVIELENS_FILES[path.name]
    for number, line in enumerate(lines, start=1):
        fields = line.split(between)
        if number == 1 and fields[0] == "userId":
            continue
        if len(fields) != RATING_FIELDS or not (fields[0].isdigit() and fields[1].isdigit()):
            raise TraceError(
                f"{path}:{number}: {line.strip()[:40]!r} is not user, item, rating and time; "
                "take the file as it was published"
            )
        yield int(fields[0])
        yield int(fields[1])


def _existing(folder: Path, names: Iterable[str], trace: str) -> Path:
    found = next((folder / name for name in names if (folder / name).is_file()), None)
    if found is None:
        raise TraceError(f"{trace}: {folder} has no {' or '.join(names)}; give the folder of the data set's files")
    return found


def _require_samples(count: int, path: Path) -> None:
    if not count:
        raise TraceError(f"{path}: has no samples; give the data set's own file")
