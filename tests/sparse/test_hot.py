"""Hot maps of traces: what the native module reads, and which rows they have."""

import json

import numpy as np
import pytest

from wiresum import _native
from wiresum.errors import TraceError
from wiresum.plan.tables import Table, Tables
from wiresum.sparse.hot import hot_map
from wiresum.sparse.observed import Observed
from wiresum.sparse.spec import parse


def test_a_map_has_the_most_popular_rows_in_order_with_its_digest():
    trace = parse("criteo:scale=0.001")
    text = hot_map(trace, 20, 30)
    assert json.loads(_native.sparse_layout(text, [[0, 49]], 8, 8, 1)), "its digest is right"
    assert json.loads(text)["digest"] == f"{_native.hot_map_digest(text):016x}"
    rows = json.loads(text)["rows"]
    assert [trace.first_keys[table] + key for table, key, _, _ in rows] == trace.top(50).tolist()
    assert [(position, tier) for _, _, position, tier in rows] == [(n, "A" if n < 20 else "B") for n in range(50)]


def test_a_map_without_rows_or_with_rows_of_two_lengths_is_refused():
    with pytest.raises(TraceError, match="needs rows"):
        hot_map(parse("zipf"), 0, 0)
    tables = [Table(name=f"t{dim}", rows=4, dimension=dim, features=[f"f{dim}"]) for dim in (1, 16)]
    with pytest.raises(TraceError, match=r"not of \[1, 16\]"):
        hot_map(Observed(Tables(tables=tables), 2, np.zeros((3, 2), dtype=np.int64)), 1, 1)
