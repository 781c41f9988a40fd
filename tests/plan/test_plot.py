"""Pictures of plans: each port is a line of its own."""

from __future__ import annotations

import pytest

from wiresum.plan.assignment.plot import abreast
from wiresum.topology.graph import Graph
from wiresum.topology.model import Link, Node, Topology


def linked(*ends: tuple[str, str]) -> Graph:
    nodes = [Node(name=name, kind="switch") for name in ("a", "b", "c")]
    links = [Link(id=f"l{number}", source=one, target=other) for number, (one, other) in enumerate(ends)]
    return Graph.of(Topology(name="abc", nodes=nodes, links=links))


@pytest.mark.parametrize(
    ("ends", "places"),
    [
        ([("a", "b"), ("b", "c")], [0, 0]),
        ([("a", "b"), ("b", "c"), ("a", "b")], [-0.5, 0, 0.5]),
        ([("a", "b"), ("b", "a"), ("a", "b")], [-1, 0, 1]),
    ],
)
def test_links_between_the_same_nodes_stand_beside_each_other(ends: list[tuple[str, str]], places: list[float]) -> None:
    assert abreast(linked(*ends)).tolist() == places
