"""What has a name has one table, and what the table says is there."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from wiresum.bench import BENCHMARKS
from wiresum.cli.main import app
from wiresum.planners import PLANNERS, ROW_PLANNERS, SWITCH_PLANNERS, SWITCH_POLICIES, TREE_PLANNERS
from wiresum.reproduce import PAPERS
from wiresum.topology.generators import TOPOLOGIES
from wiresum.topology.interchange import EXPORTERS, IMPORTERS
from wiresum.wire import POLICIES

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "python" / "wiresum"
ASK_FOR_THEM = {"bench", "reproduce"}
"""They ask particular planners, as their papers do."""
OTHER_WORDS = {*TOPOLOGIES, "ps", "auto", "direct"}
"""Names that topologies, kinds of nodes and choices of other things have too; and the default."""


@pytest.mark.parametrize("table", [TREE_PLANNERS, SWITCH_PLANNERS, ROW_PLANNERS, TOPOLOGIES, IMPORTERS, EXPORTERS])
def test_what_a_table_names_is_there(table):
    assert all(callable(table[name]) for name in table)


def constants(path):
    return {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}


def test_only_its_table_and_its_own_folder_know_a_planners_name():
    names = set(PLANNERS) - OTHER_WORDS
    found = {
        str(path.relative_to(SOURCES)): sorted(map(str, names & constants(path)))
        for path in SOURCES.rglob("*.py")
        if path.relative_to(SOURCES).parts[0] not in ASK_FOR_THEM | {"planners"}
    }
    assert {path: known for path, known in found.items() if known} == {}


def test_names_of_planners_are_spelled_one_way():
    assert [name for name in PLANNERS if name != name.lower().replace("_", "-")] == []
    assert "krgs_paper" in SWITCH_PLANNERS, "an old spelling"
    assert SWITCH_PLANNERS["atp_static"] is SWITCH_PLANNERS["atp-static"]


SHARED_BY_BENCHMARKS = {"baselines", "scenario"}
"""Folders beside the benchmarks: their rivals, and the runs of `wiresum compare SCENARIO`."""


def folders(below):
    return {path.parent.name for path in (SOURCES / below).glob("*/__init__.py")}


def test_every_folder_of_a_benchmark_or_a_paper_is_registered():
    registered = {one.run.__module__.split(".")[2] for one in BENCHMARKS.values()}
    assert registered == folders("bench") - SHARED_BY_BENCHMARKS
    assert len(registered) == len(BENCHMARKS)
    assert {name.replace("-", "_") for name in PAPERS} == folders("reproduce")


def test_every_benchmark_has_a_command_and_every_command_a_summary_and_an_example():
    bench = get_command(app).get_command(None, "bench")
    assert bench.list_commands(None) == list(BENCHMARKS)
    for name, one in BENCHMARKS.items():
        assert one.summary.endswith("."), name
        for options in (one.example, *one.repeated.values()):
            bench.get_command(None, name).make_context(name, options.split(), resilient_parsing=False)


def test_json_files_of_benchmarks_are_told_apart():
    files = [file for one in BENCHMARKS.values() for file in one.repeated]
    assert len(files) == len(set(files))


def first_cells(page):
    """What stands in backquotes in the first column of a page's tables."""
    rows = re.findall(r"^\| (`[^|]*) \|", (ROOT / "docs" / page).read_text(), flags=re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


@pytest.mark.parametrize(
    ("table", "page"),
    [
        (PLANNERS, "planners.md"),
        (ROW_PLANNERS, "planners.md"),
        (POLICIES, "policies.md"),
        (BENCHMARKS, "benchmarks.md"),
        (PAPERS, "reproduction.md"),
    ],
    ids=["planners", "planners of rows", "policies", "benchmarks", "papers"],
)
def test_whatever_has_a_name_has_a_row_in_the_documentation(table, page):
    assert set(table) - first_cells(page) == set()


def test_tables_that_follow_from_registries_are_fresh():
    command = [sys.executable, str(ROOT / "scripts" / "tables.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_planner_of_switches_has_a_policy():
    assert list(SWITCH_POLICIES) == list(SWITCH_PLANNERS)
