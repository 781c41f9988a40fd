"""Initial values in Python: those that `crates/sparse/src/table/initial.rs` fixes, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wiresum.sparse.initial import initial_rows

KEY = 1_000_000_007


def table(initial: Any, seed: int = 42) -> dict[str, Any]:
    return {"id": 1, "dim": 3, "seed": seed, "initial": initial}


@pytest.mark.parametrize(
    ("initial", "bits"),
    [
        ({"normal": 1.0}, [0xBF7C7220, 0x3F199D57, 0xBF4AB5AD]),
        ({"uniform": 0.25}, [0xBDB2909A, 0x3D8D0302, 0xBCFA5438]),
        ("zeros", [0, 0, 0]),
    ],
)
def test_bits_are_those_of_servers(initial, bits):
    rows = initial_rows(table(initial), np.array([5, KEY]))
    assert rows.dtype == np.float32
    assert rows[1].view(np.uint32).tolist() == bits


def test_rows_and_seeds_differ():
    rows = initial_rows(table({"normal": 1.0}), np.arange(50))
    assert len(np.unique(rows)) == rows.size
    assert not np.array_equal(rows, initial_rows(table({"normal": 1.0}, seed=43), np.arange(50)))
