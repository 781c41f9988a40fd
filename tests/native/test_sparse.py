from __future__ import annotations

import json
from typing import Any

import pytest

from wiresum import _native, errors


def hot_map(rows: list[list[Any]], positions: int = 100) -> str:
    fields = {"format": "wiresum-hot-map/1", "version": 1, "dim": 16, "positions": positions}
    return json.dumps({**fields, "rows": rows})


def test_dealing_needs_no_recirculation() -> None:
    pushes = [list(range(60)), list(range(0, 100, 3))]
    rows = json.loads(_native.sparse_layout(hot_map([]), pushes, 8, 8, 1))
    assert [(row["layout"], row["packaging"]) for row in rows] == [
        (layout, packaging)
        for layout in ("random", "heat")
        for packaging in ("arrival", "rank", "algorithm-1", "dealing")
    ]
    assert {row["full_packets"] for row in rows} == {8 + 5}
    for row in rows:
        dealt = row["packaging"] == "dealing"
        assert (row["multiplicity"] == row["most"] == 0) if dealt else row["one_pair_a_pass"] > 5
        assert row["program"] == row["multiplicity"]


def test_the_program_says_what_it_takes() -> None:
    report = json.loads(_native.keyed_report(30_000, 24, 10, 32, 3_000))
    assert (report["stages"], report["arrays"]) == (9, 27)
    with pytest.raises(errors.PlanError, match="stage 12"):
        _native.keyed_report(30_000, 40, 10, 32, 3_000)
    with pytest.raises(errors.PlanError, match="33 workers"):
        _native.keyed_report(30_000, 24, 10, 33, 3_000)


@pytest.mark.parametrize(
    ("map_json", "pushes", "pairs", "named"),
    [
        (hot_map([]), [[100]], 8, "position 100"),
        (hot_map([]), [[1, 1]], 8, "pushed twice"),
        (hot_map([]), [[1]], 0, "0 pairs"),
        (hot_map([[0, 7, 3, "A"], [0, 8, 3, "B"]]), [[1]], 8, "position 3 has two rows"),
        ("{}", [[1]], 8, "not a hot map"),
    ],
)
def test_what_is_wrong_is_named(map_json: str, pushes: list[list[int]], pairs: int, named: str) -> None:
    with pytest.raises(errors.PlanError, match=named):
        _native.sparse_layout(map_json, pushes, 8, pairs, 1)


def test_a_digest_is_of_the_rows_alone() -> None:
    rows: list[list[Any]] = [[0, 7, 3, "A"], [1, 2**64 - 1, 4, "B"]]
    digest = _native.hot_map_digest(hot_map(rows))
    assert digest == _native.hot_map_digest(hot_map(rows[::-1])) != _native.hot_map_digest(hot_map(rows[:1]))
    sealed = {**json.loads(hot_map(rows)), "digest": f"{digest:016x}"}
    assert _native.hot_map_digest(json.dumps(sealed)) == digest
    with pytest.raises(errors.PlanError, match="write the map anew"):
        _native.hot_map_digest(json.dumps({**sealed, "version": 2}))
