"""Hot maps: which rows have positions, and in which tier, as the file that all participants of a job share."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from wiresum.errors import TraceError
from wiresum.sparse.trace import Trace

FORMAT = "wiresum-hot-map/1"


def empty_map(dimension: int, positions: int) -> str:
    """A map with positions and no rows yet: those that the first rounds touch most take them, where rows are tracked.

    Args:
        dimension: values of a row.
        positions: rows that may be hot.
    """
    document = {"format": FORMAT, "version": 1, "dim": dimension, "positions": positions, "rows": []}
    return json.dumps(document) + "\n"


def hot_map(trace: Trace, replicated: int, summed: int, round: int = 0) -> str:
    """The map of a trace's most popular rows, in which position is rank.

    Args:
        trace: which rows are popular.
        replicated: rows of tier A, the most popular ones.
        summed: rows of tier B, the next.
        round: of the popularity.

    Raises:
        TraceError: no row is hot, or rows of several lengths would be in one map.
    """
    from wiresum._native import hot_map_digest

    lengths = {table.dimension for table in trace.tables.tables}
    if len(lengths) > 1:
        raise TraceError(f"a hot map has rows of one length, not of {sorted(lengths)}; make a trace for each")
    if not replicated + summed:
        raise TraceError("a hot map needs rows; this plan has none in the tiers A and B")
    keys = trace.top(replicated + summed, round)
    tables = trace.table_of(keys)
    rows = np.column_stack([tables, keys - trace.first_keys[tables], np.arange(len(keys))]).tolist()
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": 1,
        "dim": lengths.pop(),
        "positions": len(keys),
        "block": 0,
        "rows": [[*row, "A" if row[-1] < replicated else "B"] for row in rows],
    }
    digest = hot_map_digest(json.dumps(document))
    return json.dumps({**document, "digest": f"{digest:016x}"}) + "\n"
