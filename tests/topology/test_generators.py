import re

import pytest

from wiresum.errors import TopologyError
from wiresum.topology.generators import TOPOLOGIES
from wiresum.topology.generators.fat_tree import fat_tree
from wiresum.topology.generators.goat import goat
from wiresum.topology.generators.ingo import ingo
from wiresum.topology.generators.leaf_spine import leaf_spine
from wiresum.topology.generators.racks import racks
from wiresum.topology.model import Topology


def kinds(topology: Topology) -> dict[str, int]:
    counted: dict[str, int] = {}
    for node in topology.nodes:
        counted[node.kind] = counted.get(node.kind, 0) + 1
    return counted


@pytest.mark.parametrize(
    ("topology", "counts", "links", "summing"),
    [
        (leaf_spine(), {"switch": 20, "worker": 49, "ps": 1}, 150, 4),
        (leaf_spine(bundle=2, programmable=0.25), {"switch": 20, "worker": 49, "ps": 1}, 250, 5),
        (fat_tree(8), {"switch": 80, "worker": 127, "ps": 1}, 384, 16),
        (fat_tree(8, hosts_per_edge=6), {"switch": 80, "worker": 191, "ps": 1}, 448, 16),
        (goat(), {"switch": 3, "worker": 8, "ps": 1}, 12, 3),
        (ingo("star"), {"switch": 4, "worker": 10, "ps": 1}, 14, 4),
        (ingo("ring"), {"switch": 4, "worker": 10, "ps": 1}, 15, 4),
        (ingo("mesh"), {"switch": 4, "worker": 10, "ps": 1}, 17, 4),
        (racks(), {"switch": 4, "worker": 8, "ps": 1}, 15, 4),
    ],
)
def test_sizes_are_the_papers(topology, counts, links, summing):
    assert kinds(topology) == counts
    assert len(topology.links) == links
    assert sum(node.kind == "switch" for node in topology.summing_nodes) == summing


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_every_generator_makes_a_file_that_reads_back(name):
    made = TOPOLOGIES[name]()
    assert Topology.parse(made.to_json()) == made


def test_the_seed_chooses_the_switches_that_sum():
    chosen = [{node.name for node in fat_tree(8, seed=seed).summing_nodes} for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: fat_tree(7), "even number of ports"),
        (lambda: fat_tree(50), "even number of ports"),
        (lambda: fat_tree(2, hosts_per_edge=0), "room for a worker"),
        (lambda: leaf_spine(programmable=1.5), "0 to 1"),
        (lambda: racks(server_racks=0), "1 or more of each"),
        (lambda: leaf_spine(leaves=0), "1 or more"),
        (lambda: goat(0), "1 worker or more"),
        (lambda: ingo("tree"), "star, ring, mesh"),
    ],
)
def test_what_cannot_be_built_is_named(make, named):
    with pytest.raises(TopologyError, match=re.escape(named)):
        make()
