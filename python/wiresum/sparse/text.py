"""Real text that every machine has: the sources of Python's standard library, token by token."""

from __future__ import annotations

import re
import sysconfig
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np

from wiresum.errors import TraceError
from wiresum.plan.tables import Table, Tables
from wiresum.sparse.observed import Observed
from wiresum.sparse.randomness import Ints, RandomStream, uniforms
from wiresum.sparse.synthetic import DIMENSION

TOKEN = re.compile(r"\w+|[^\w\s]")
"""A word, a number, or one sign."""
NOT_OURS = {"site-packages", "dist-packages"}
"""Folders with what was installed beside the standard library."""
TOGETHER = 256
"""Tokens that stay neighbours when samples are shuffled: several lines of source, more than any window of words."""


def text(batch: int = 4096, dim: int = DIMENSION, seed: int = 0) -> Observed:
    """The tokens of Python's standard library; a sample is one token, and passages are shuffled.

    Args:
        batch: tokens of a worker in a round.
        dim: values of a row.
        seed: seed of the order of passages.

    Raises:
        TraceError: the standard library's sources are not on this machine.
    """
    tokens, distinct = _tokens()
    passages = len(tokens) // TOGETHER
    order = np.argsort(uniforms(seed, RandomStream.ORDER, 0, passages))
    keys = tokens[: passages * TOGETHER].reshape(passages, TOGETHER)[order].reshape(-1, 1)
    table = Table(name="words", rows=distinct, dimension=dim, features=["word"])
    return Observed(Tables(tables=[table]), batch, keys)


@cache
def _tokens() -> tuple[Ints, int]:
    """All tokens as numbers in order of first use, and how many there are of them."""
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    parts = [
        np.fromiter(map(numbers.__getitem__, TOKEN.findall(file.read_text(errors="replace"))), dtype=np.int32)
        for file in _sources()
    ]
    if sum(map(len, parts)) < TOGETHER:
        raise TraceError("text: the sources of Python's standard library are not here; install them, or choose zipf")
    return np.concatenate(parts), len(numbers)


def _sources() -> Iterator[Path]:
    root = Path(sysconfig.get_paths()["stdlib"])
    for file in sorted(root.rglob("*.py")):
        if NOT_OURS.isdisjoint(file.relative_to(root).parts):
            yield file
