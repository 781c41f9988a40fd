"""Sparse models: which rows of their tables workers touch, round by round, and what follows from that for servers.

A *trace* is an endless sequence of samples, each of which looks up a few rows; `TRACES` names those that need no file.

Example:
    >>> from wiresum.sparse.spec import parse
    >>> trace = parse("criteo:scale=0.1,batch=512")
    >>> trace.pushed(round=0, worker=3, workers=8).shape
    (3456,)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wiresum.registry import Registry

if TYPE_CHECKING:
    from wiresum.sparse.trace import Trace

TRACES: Registry[Callable[..., Trace]] = Registry(
    {
        "criteo": "wiresum.sparse.criteo:criteo",
        "zipf": "wiresum.sparse.synthetic:zipf",
        "oa": "wiresum.sparse.synthetic:oa",
        "se": "wiresum.sparse.synthetic:se",
        "deeplight": "wiresum.sparse.synthetic:deeplight",
        "ncf": "wiresum.sparse.synthetic:ncf",
        "text": "wiresum.sparse.text:text",
    }
)
"""Traces that are drawn, or read from what every machine has."""
FILE_TRACES: Registry[Callable[..., Trace]] = Registry(
    {
        "criteo": "wiresum.sparse.files:criteo",
        "movielens": "wiresum.sparse.files:movielens",
    }
)
"""Traces that are read from the original files of a data set."""
