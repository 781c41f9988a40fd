"""Optical switches in a topology: rules of ports, and the packet network that lit circuits make."""

import re
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiresum.errors import TopologyError
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan as make_plan
from wiresum.planners.fabrics import plan_switched
from wiresum.predict.link_bytes import link_bytes
from wiresum.testbed.layout import lay_out
from wiresum.topology.circuits import fibres, uniform, units
from wiresum.topology.generators.optical import optical
from wiresum.topology.generators.racks import racks
from wiresum.topology.graph import Graph
from wiresum.topology.model import Topology
from wiresum.topology.optical import Circuit

SHAPES = st.fixed_dictionaries(
    {
        "units": st.integers(1, 7),
        "hosts_per_unit": st.integers(1, 2),
        "ports": st.integers(1, 6),
        "switches": st.integers(1, 3),
        "sides": st.integers(1, 2),
    }
)


def pairs(topology, circuits):
    unit = {fibre.link.id: fibre.unit for fibre in fibres(topology)}
    return Counter(frozenset(unit[link] for link in circuit.links) for circuit in circuits)


@given(SHAPES)
def test_uniform_circuits_use_ports_once_and_leave_none_that_could_meet(shape):
    topology = optical(**shape)
    made = uniform(topology)
    used = [link for circuit in made for link in circuit.links]
    assert len(used) == len(set(used))
    free = [fibre for fibre in fibres(topology) if fibre.link.id not in used]
    assert not any(one.can_meet(other) for one, other in combinations(free, 2))


@given(SHAPES, st.randoms(use_true_random=False))
def test_a_lit_network_has_a_link_for_each_circuit_and_nothing_optical(shape, random):
    topology = optical(**shape)
    chosen = [circuit for circuit in uniform(topology) if random.random() < 0.5]
    lit = topology.with_circuits(chosen)
    assert Topology.parse(lit.to_json()) == lit
    assert {node.name for node in topology.nodes} - {node.name for node in lit.nodes} == {
        node.name for node in topology.nodes if node.kind == "oxc"
    }
    joined = Counter(frozenset({link.source, link.target}) for link in lit.links if "." in link.id)
    assert joined == pairs(topology, chosen)
    assert Graph.of(lit.require_packets()).node_count == len(lit.nodes)


def test_uniform_is_a_mesh_where_ports_suffice_and_a_circulant_where_not():
    mesh = optical(5, 1, ports=4)
    assert pairs(mesh, uniform(mesh)) == {frozenset(pair): 1 for pair in combinations(units(mesh), 2)}
    ring = optical(6, 1, ports=2)
    assert pairs(ring, uniform(ring)) == {frozenset({f"u{n}", f"u{(n + 1) % 6}"}): 1 for n in range(6)}


def test_a_circuit_has_the_lower_rate_and_both_delays_and_losses():
    topology = optical(2, 1, ports=1, rate_bps=10e9)
    fibre = {"bandwidth_bps": 4e9, "reverse_bandwidth_bps": 7e9, "delay_s": 1e-3, "loss": 0.5}
    links = [link.model_copy(update=fibre) if link.id == "u1-1" else link for link in topology.links]
    lit = topology.model_copy(update={"links": links}).with_circuits([Circuit(switch="oxc", links=["u0-1", "u1-1"])])
    link = lit.links[-1]
    assert (link.id, link.source, link.target) == ("oxc.1-2", "u0", "u1")
    assert (link.bandwidth_from("u0"), link.bandwidth_from("u1")) == (7e9, 4e9)
    assert (link.delay_from("u0"), link.delay_from("u1")) == (1e-3, 1e-3)
    assert (link.loss_from("u0"), link.loss_from("u1")) == (0.5, 0.5)


def changed(topology, **fields):
    """A topology file with other fields of its optical switch."""
    content = topology.model_dump(exclude_none=True)
    for node in content["nodes"]:
        if node["kind"] == "oxc":
            node["oxc"].update(fields)
    return content


def port(name, link=None, side=None):
    return {"name": name, **({"link": link} if link else {}), **({"side": side} if side else {})}


TWO = optical(2, 1, ports=1)


@pytest.mark.parametrize(
    ("ports", "named"),
    [
        ([port("1", "u0-1"), port("1", "u1-1")], "two have the name 1"),
        ([port("1", "u0-1"), port("2", "u0-1")], "two have the link u0-1"),
        ([port("1", "u0-1"), port("2")], "link u1-1 ends at no port of oxc"),
        ([port("1", "u0-1"), port("2", "u1-1"), port("3", "w0-u0")], "w0-u0, which does not end at oxc"),
        ([port("1", "u0-1", "A"), port("2", "u1-1")], "some have none"),
    ],
)
def test_a_fibre_has_one_port(ports, named):
    with pytest.raises(TopologyError, match=re.escape(named)):
        Topology.build(**changed(TWO, ports=ports))


def test_ports_may_be_left_to_the_order_of_links():
    bare = Topology.build(**changed(TWO, ports=[]))
    assert bare.with_circuits(uniform(bare)) == TWO.with_circuits(uniform(TWO))


@pytest.mark.parametrize(
    ("topology", "circuits", "named"),
    [
        (optical(3, 1, ports=1), [("oxc", "u0-1", "u1-1"), ("oxc", "u1-1", "u2-1")], "port 2 of oxc is in two"),
        (optical(3, 1, ports=1, sides=2), [("oxc", "u0-1", "u2-1")], "both on side A; join A to B"),
        (optical(2, 1, ports=2, switches=2), [("oxc0", "u0-1", "u1-2")], "u1-2 ends at oxc1"),
        (optical(2, 1, ports=2), [("oxc", "u0-1", "u0-2")], "both come from u0; join two units"),
        (optical(2, 1, ports=1), [("oxc", "u0-1", "u0-1")], "port 1 of oxc is used twice"),
        (optical(2, 1, ports=1), [("oxc", "u0-1", "w0-u0")], "w0-u0 is no fibre of oxc"),
        (optical(2, 1, ports=1), [("u0", "u0-1", "u1-1")], "u0 is no optical switch"),
    ],
)  # fmt: skip
def test_a_circuit_that_cannot_be_is_refused_by_name(topology, circuits, named):
    with pytest.raises(TopologyError, match=re.escape(named)):
        topology.with_circuits(Circuit(switch=switch, links=[*links]) for switch, *links in circuits)


def test_a_fibre_between_optical_switches_is_refused():
    content = optical(2, 1, ports=2, switches=2).model_dump(exclude_none=True)
    content["links"].append({"id": "far", "source": "oxc0", "target": "oxc1"})
    with pytest.raises(TopologyError, match="two optical switches; a fibre leads from one to a unit"):
        Topology.build(**content)


@pytest.mark.parametrize("node", [{"kind": "oxc"}, {"kind": "switch", "oxc": {"dark_s": 0.1}}])
def test_only_an_optical_switch_has_times_of_darkness(node):
    with pytest.raises(TopologyError, match="an `oxc` has the field `oxc`"):
        Topology.build(name="t", nodes=[{"name": "x", **node}], links=[])


@pytest.mark.parametrize(
    "reads",
    [
        Graph.of,
        lambda topology: topology.with_addresses(),
        lambda topology: lay_out("x", topology, 1500),
        lambda topology: plan_switched(topology, Job(gradient_bytes=4096), PlanOptions(), "p4inc-aoi"),
        lambda topology: make_plan(topology, Job(gradient_bytes=4096), PlanOptions(), "direct"),
    ],
    ids=["graph", "addresses", "testbed", "p4inc-aoi", "direct"],
)
def test_who_needs_packets_says_that_circuits_are_missing(reads):
    with pytest.raises(TopologyError, match="oxc is an optical switch, and which units it joins is not said"):
        reads(racks(ports=3))


def test_lit_racks_are_planned_like_racks_with_fixed_circuits():
    fixed, optically = racks(), racks(ports=3)
    lit = optically.with_circuits(uniform(optically))
    job = Job(gradient_bytes=1 << 20)
    sent = [
        link_bytes(plan_switched(topology.with_addresses(), job, PlanOptions(), "p4inc-aoi"), 1 << 18)
        for topology in (fixed, lit)
    ]
    assert sorted(map(sorted, sent[0].values())) == sorted(map(sorted, sent[1].values()))
