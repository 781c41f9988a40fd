from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from wiresum.cli.sparse_layout import layout
from wiresum.errors import PlanError, TraceError

app = typer.Typer()
app.command()(layout)


@pytest.fixture
def hot_map(tmp_path: Path) -> Path:
    rows = [[0, 3 * key, key, "A"] for key in range(2000)]
    fields = {"format": "wiresum-hot-map/1", "version": 1, "dim": 16, "positions": 3000}
    path = tmp_path / "hot.json"
    path.write_text(json.dumps({**fields, "rows": rows}))
    return path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_dealing_takes_at_most_a_twentieth_more_packets(hot_map: Path) -> None:
    rows = json.loads(run(hot_map, "--registers", 64, "--pairs", 32, "--lookups", 5000, "--json"))
    assert len(rows) == 8
    for row in rows:
        if row["packaging"] == "dealing":
            assert row["multiplicity"] == 0
            assert row["packets"] <= 1.05 * row["full_packets"]
        elif row["packaging"] == "arrival":
            assert row["multiplicity"] > 1


def test_the_table_has_a_line_for_each(hot_map: Path) -> None:
    lines = run(hot_map, "--registers", 8, "--pairs", 8).splitlines()
    assert lines[0].startswith("20 pushes of ")
    assert [line.split()[:2] for line in lines[2:6]] == [
        ["random", name] for name in ("arrival", "rank", "algorithm-1", "dealing")
    ]


def test_a_file_that_is_no_map_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hot.json"
    bare = '{"format": "wiresum-hot-map/1", "version": 1, "dim": 1, "positions": 1, "rows": []}'
    for text, error, named in (("[]", TraceError, "should be an object with fields"), (bare, PlanError, "has no rows")):
        path.write_text(text)
        with pytest.raises(error, match=f"hot map {path}: {named}"):
            run(path, "--registers", 8, "--pairs", 8)
