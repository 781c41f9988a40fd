"""What has a name has one table, and what the table says is there."""

import ast
from pathlib import Path

import pytest

from wiresum.planners import PLANNERS, SWITCH_PLANNERS, SWITCH_POLICIES, TREE_PLANNERS
from wiresum.topology.generators import TOPOLOGIES
from wiresum.topology.interchange import EXPORTERS, IMPORTERS

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "python" / "wiresum"
ASK_FOR_THEM = {"bench", "reproduce"}
"""They ask particular planners, as their papers do."""
OTHER_WORDS = {*TOPOLOGIES, "ps", "auto", "direct"}
"""Names that topologies, kinds of nodes and choices of other things have too; and the default."""


@pytest.mark.parametrize("table", [TREE_PLANNERS, SWITCH_PLANNERS, TOPOLOGIES, IMPORTERS, EXPORTERS])
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


def test_every_planner_has_a_line_in_the_guide():
    guide = (ROOT / "docs" / "planners.md").read_text()
    assert [name for name in PLANNERS if f"`{name}`" not in guide] == []
    assert list(SWITCH_POLICIES) == list(SWITCH_PLANNERS)
