import json
import re

import pytest
from hypothesis import given
from tests.topology.test_model import topologies

from wiresum.errors import TopologyError
from wiresum.topology.generators import TOPOLOGIES
from wiresum.topology.generators.fat_tree import fat_tree
from wiresum.topology.generators.goat import goat
from wiresum.topology.generators.leaf_spine import leaf_spine
from wiresum.topology.generators.programmable import Programmable, with_roles
from wiresum.topology.generators.star import star
from wiresum.topology.interchange.containerlab import to_containerlab
from wiresum.topology.interchange.hpcc import from_hpcc
from wiresum.topology.interchange.htsim import to_htsim
from wiresum.topology.interchange.node_link import from_node_link, to_node_link
from wiresum.topology.model import Topology


@given(topologies())
def test_node_link_json_keeps_everything(topology):
    assert from_node_link(to_node_link(topology), topology.name) == topology


@pytest.mark.parametrize("spelling", ["edges", "links"])
def test_networkx_reads_and_writes_it(spelling):
    import networkx

    topology = leaf_spine(2, 2, 2, bundle=2)
    graph = networkx.node_link_graph(json.loads(to_node_link(topology)), edges="edges")
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (8, 12)
    again = from_node_link(json.dumps(networkx.node_link_data(graph, edges=spelling)), topology.name)
    assert sorted(again.nodes, key=str) == sorted(topology.nodes, key=str)
    assert {link.id: link.bandwidth_bps for link in again.links} == {link.id: 10e9 for link in topology.links}


def test_opposite_edges_of_a_directed_graph_are_one_link():
    edges = [
        {"source": "a", "target": "b", "bandwidth_bps": 1e9},
        {"source": "b", "target": "a", "bandwidth_bps": 2e9},
        {"source": "a", "target": "b", "bandwidth_bps": 3e9},
    ]
    text = json.dumps({"directed": True, "nodes": [{"id": "a"}, {"id": "b", "kind": "switch"}], "edges": edges})
    made = from_node_link(text, "pair")
    assert [(link.bandwidth_bps, link.reverse_bandwidth_bps) for link in made.links] == [(1e9, 2e9), (3e9, None)]


HPCC = """5 2 5
3 4
0 3 100Gbps 0.0005ms 0
1 3 100Gbps 0.0005ms 0
2 4 40Gbps 1us 0.001
3 4 400Gbps 1us 0
3 4 400Gbps 1us 0
"""


def test_hpccs_text_keeps_parallel_links():
    made = from_hpcc(HPCC, "hpcc")
    assert [node.kind for node in made.nodes] == ["worker"] * 3 + ["switch"] * 2
    assert [(link.source, link.target) for link in made.links][-2:] == [("n3", "n4"), ("n3", "n4")]
    assert made.links[0].delay_s == pytest.approx(5e-7)
    assert made.links[2].loss == 0.001


def test_simais_header_counts_both_kinds_of_switches():
    made = from_hpcc(HPCC.replace("5 2 5\n", "5 1 1 1 5 A100\n"), "simai")
    assert sum(node.kind == "switch" for node in made.nodes) == 2


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "is empty"),
        ("5 2\n", "line 1 has 2 fields"),
        ("5 x 5\n", "x is not a whole number"),
        (HPCC.replace("3 4\n", "3\n", 1), "line 1 says 2 switches, and line 2 names 1"),
        (HPCC.replace("5 2 5", "5 2 6"), "line 1 says 6 links, and there are 5"),
        (HPCC.replace("0 3 100Gbps", "0 9 100Gbps"), "line 3 names node 9"),
        (HPCC.replace("40Gbps", "fast"), "line 5: fast is no quantity"),
        (HPCC.replace(" 0.001\n", "\n"), "line 5 has 4 fields"),
    ],
)
def test_what_is_wrong_in_hpccs_text_is_named(text, named):
    with pytest.raises(TopologyError, match=re.escape(named)):
        from_hpcc(text, "hpcc")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[", "cannot be read"),
        ("[]", "is an object"),
        ('{"nodes": []}', "`edges` (or `links`)"),
        ('{"nodes": [{}], "edges": []}', "nodes[0].id is missing"),
        ('{"nodes": [{"id": "a"}], "edges": [{"source": "a"}]}', "edges[0].target is missing"),
        ('{"nodes": [{"id": "a", "kind": "router"}], "edges": []}', "nodes[0].kind"),
        ('{"nodes": [{"id": "a"}], "edges": [{"source": "a", "target": "b"}]}', "node b is not in `nodes`"),
    ],
)
def test_what_is_wrong_in_node_link_json_is_named(text, named):
    with pytest.raises(TopologyError, match=re.escape(named)):
        from_node_link(text, "bad")


def test_imported_networks_get_their_roles():
    made = with_roles(from_hpcc(HPCC, "hpcc"), "n2", Programmable(0.5, 1000))
    assert (made.node("n2").kind, sum(node.kind == "switch" for node in made.summing_nodes)) == ("ps", 1)
    with pytest.raises(TopologyError, match="n3 is a switch"):
        with_roles(made, "n3", None)


def test_htsims_files_have_its_radices():
    wanted = ["Nodes 1024", "Tiers 3", "Podsize 64", "Tier 0", "Downlink_speed_Gbps 100", "Radix_Down 8", "Radix_Up 8"]
    assert [line for line in to_htsim(fat_tree(16, rate_bps=100e9)).splitlines() if line][:7] == wanted
    spine = to_htsim(leaf_spine(4, 2, 8, bundle=2)).split("Tier 1")[1]
    assert "Radix_Down 8\n" in spine
    assert "Bundle 2" in spine
    assert "Radix_Up" not in spine


def without_a_link(topology: Topology) -> Topology:
    return topology.model_copy(update={"links": topology.links[1:]})


@pytest.mark.parametrize(
    ("topology", "named"),
    [
        (star(2), "has 1"),
        (goat(), "has 1"),
        (without_a_link(fat_tree(4)), "differ"),
        (leaf_spine(2, 1, 2, rate_bps=None), "one finite rate"),
    ],
)
def test_what_htsim_cannot_have_is_named(topology, named):
    with pytest.raises(TopologyError, match=named):
        to_htsim(topology)


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_containerlab_gives_every_link_interfaces_of_its_own(name):
    topology = TOPOLOGIES[name]()
    ends = re.findall(r'"([^" ]+:eth\d+)"', to_containerlab(topology))
    assert len(ends) == len(set(ends)) == 2 * len(topology.links)
