import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiresum.errors import TopologyError
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Link, Node, Topology

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,15}", fullmatch=True)
RATES = st.none() | st.floats(1e4, 1e12)  # as far apart as links may be


@st.composite
def topologies(draw):
    names = draw(st.lists(NAMES, min_size=1, max_size=8, unique=True))
    kinds = draw(st.lists(st.sampled_from(["worker", "ps", "switch"]), min_size=len(names), max_size=len(names)))
    nodes = [
        Node(name=name, kind=kind, aggregation_rate_bps=1e9 if kind == "ps" else 0.0)
        for name, kind in zip(names, kinds, strict=True)
    ]
    pairs = draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=12))
    links = [
        Link(id=f"l{i}", source=a, target=b, bandwidth_bps=draw(RATES), reverse_bandwidth_bps=draw(RATES))
        for i, (a, b) in enumerate(pairs)
        if a != b
    ]
    return Topology(name=draw(NAMES), nodes=nodes, links=links)


@given(topologies())
def test_a_topology_survives_its_file(topology):
    assert Topology.parse(topology.to_json()) == topology


@given(topologies())
def test_addresses_are_distinct_and_given_to_all_that_talk(topology):
    nodes = topology.with_addresses().nodes
    addresses = [node.address for node in nodes if node.address]
    assert len(set(addresses)) == len(addresses)
    assert all(node.address for node in nodes if node.kind == "worker" or node.sums)


def test_a_link_has_a_rate_and_a_delay_in_each_direction():
    link = Link(id="l", source="a", target="b", bandwidth_bps=1e9, reverse_bandwidth_bps=2e9, delay_s=0.1)
    assert (link.bandwidth_from("a"), link.bandwidth_from("b")) == (1e9, 2e9)
    assert (link.delay_from("a"), link.delay_from("b")) == (0.1, 0.1)
    assert link.other_end("a") == "b"


def test_parallel_links_differ_by_id():
    nodes = [Node(name="a", kind="switch"), Node(name="b", kind="switch")]
    links = [Link(id=f"l{i}", source="a", target="b") for i in range(2)]
    assert len(Topology(name="t", nodes=nodes, links=links).links_of("a")) == 2


def test_star_puts_the_summing_switch_in_the_middle():
    topology = star(workers=3, rate_bps=2e8)
    assert [worker.address for worker in topology.workers] == ["10.99.0.1", "10.99.0.2", "10.99.0.3"]
    assert [node.address for node in topology.summing_nodes] == ["10.99.0.254"]
    assert {link.bandwidth_bps for link in topology.links} == {2e8}


def test_xagg_is_the_papers_network_at_a_hundredth():
    topology = xagg()
    rates = {link.source: link.bandwidth_bps for link in topology.links}
    assert [rates[f"W{n}"] for n in range(1, 8)] == [4e8] * 3 + [1e9] * 4
    assert {node.name: node.sums_at for node in topology.summing_nodes} == {"S1": "PS", "S2": "PS", "PS": None}


def test_paths_end_at_hosts():
    topology = xagg()
    assert next(node.name for node in topology.by_distance("W7") if node.sums) in {"S1", "S2", "PS"}
    chain = Topology(
        name="chain",
        nodes=[Node(name=n, kind="worker") for n in "abc"],
        links=[Link(id="ab", source="a", target="b"), Link(id="bc", source="b", target="c")],
    )
    assert [node.name for node in chain.by_distance("a")] == ["a", "b"]


WORKER = {"name": "a", "kind": "worker"}
SWITCH = {"name": "s", "kind": "switch", "aggregation_rate_bps": 1e9}
FORWARDER = {"name": "s", "kind": "switch"}
UPLINK = {"id": "l", "source": "a", "target": "s"}
BAD_TOPOLOGIES = {
    "nodes: is missing": {},
    "nodes[0].nmae: is not a known field": {"nodes": [{"nmae": "a", **WORKER}]},
    "nodes[0].kind": {"nodes": [{"name": "a", "kind": "router"}]},
    "nodes[0].name": {"nodes": [{"name": "a b", "kind": "worker"}]},
    "nodes[0].address": {"nodes": [{**WORKER, "address": "10.0.0"}]},
    "`aggregation_rate_bps` must be above 0": {"nodes": [{"name": "a", "kind": "ps"}]},
    "workers do not sum": {"nodes": [{**WORKER, "aggregation_rate_bps": 1.0}]},
    "two have the name a": {"nodes": [WORKER, WORKER]},
    "two have the address": {"nodes": [{**WORKER, "address": "10.0.0.1"}, {**SWITCH, "address": "10.0.0.1"}]},
    "links[0].bandwidth_bps": {"nodes": [WORKER], "links": [{**UPLINK, "bandwidth_bps": 0}]},
    "node s is not in `nodes`": {"nodes": [WORKER], "links": [UPLINK]},
    "joins a node to itself": {"nodes": [WORKER], "links": [{"id": "l", "source": "a", "target": "a"}]},
    "two have the id l": {
        "nodes": [WORKER, SWITCH],
        "links": [UPLINK, UPLINK],
    },
    "nodes[0].sums_at: s is not a node that sums": {"nodes": [{**WORKER, "sums_at": "s"}, FORWARDER]},
    "a node cannot be its own parent": {"nodes": [{**SWITCH, "sums_at": "s"}]},
}  # fmt: skip


@pytest.mark.parametrize(("message", "content"), BAD_TOPOLOGIES.items(), ids=list(BAD_TOPOLOGIES))
def test_a_bad_topology_is_refused_with_its_field(message, content):
    with pytest.raises(TopologyError) as refused:
        Topology.parse(json.dumps({"name": "bad", **content}), "bad.json")
    assert message in str(refused.value)
    assert "bad.json" in str(refused.value)


@pytest.mark.parametrize("text", ["", "[", "nodes", '{"name": NaN}', '{"name": "a", "name": "b"}', "[" * 100_000])
def test_what_is_not_json_is_refused(text):
    with pytest.raises(TopologyError):
        Topology.parse(text)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TopologyError, match=r"absent\.json"):
        Topology.read(tmp_path / "absent.json")


@pytest.mark.parametrize("make", [lambda: star(workers=0), lambda: star(workers=201), lambda: xagg(scale=0)])
def test_generators_refuse_what_they_cannot_make(make):
    with pytest.raises(TopologyError):
        make()


def test_an_unknown_node_is_named():
    with pytest.raises(TopologyError, match="no node w9"):
        star(2).node("w9")
