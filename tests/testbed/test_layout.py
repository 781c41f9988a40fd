"""Decisions that need no privileges: names, where links are shaped, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiresum.errors import TopologyError
from wiresum.testbed.layout import lay_out
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Link, Node, Topology

MTU = 3200


def switch_of_switches() -> Topology:
    nodes = [Node(name=n, kind="worker") for n in ("a", "b")]
    nodes += [Node(name=n, kind="switch", aggregation_rate_bps=1e9) for n in ("left", "right")]
    links = [
        Link(id="a", source="a", target="left"),
        Link(id="middle", source="left", target="right", bandwidth_bps=1e9, reverse_bandwidth_bps=5e8),
        Link(id="b", source="right", target="b"),
    ]
    return Topology(name="two", nodes=nodes, links=links)


def test_a_star_has_ports_at_the_switch_and_an_interface_at_each_host():
    layout = lay_out("t", star(3), MTU)
    assert layout.namespaces == {"w0": "ws-t-w0", "w1": "ws-t-w1", "w2": "ws-t-w2", "switch": "ws-t-switch"}
    assert [port.interface for port in layout.ports("switch")] == ["p0", "p1", "p2"]
    assert [port.interface for port in layout.ports("w2")] == ["e0"]
    assert layout.far_end(layout.ports("switch")[1]) == layout.ports("w1")[0]
    assert layout.prefix_length == 24


@pytest.mark.parametrize("xdp_nodes", [(), ("switch",)])
def test_a_star_is_shaped_at_its_hosts(xdp_nodes):
    layout = lay_out("t", star(2), MTU, xdp_nodes)
    assert {wire.shaped_at.node for wire in layout.wires} == {"w0", "w1"}


def test_a_server_that_sums_in_xdp_is_shaped_at_the_fabric():
    layout = lay_out("t", xagg(), MTU, ("S1", "S2", "PS"))
    shaped_at = {wire.link.id: wire.shaped_at.node for wire in layout.wires}
    assert {name for name, place in shaped_at.items() if place == "fabric"} == {"S1", "S2", "PS"}


def test_rates_follow_the_shaped_end():
    wires = {wire.link.id: wire for wire in lay_out("t", switch_of_switches(), MTU, ("left",)).wires}
    middle = wires["middle"]
    assert (middle.shaped_at.node, middle.outward_bps, middle.inward_bps) == ("right", 5e8, 1e9)


@given(st.integers(1, 64))
def test_every_port_of_a_star_is_its_own(workers):
    layout = lay_out("t", star(workers), MTU)
    ports = [port for wire in layout.wires for port in (wire.source, wire.target)]
    assert len({(port.namespace, port.interface) for port in ports}) == 2 * workers


def hosts(first: str, second: str) -> Topology:
    nodes = [Node(name="a", kind="worker", address=first), Node(name="b", kind="worker", address=second)]
    return Topology(name="t", nodes=nodes, links=[Link(id="l", source="a", target="b")])


def test_the_network_is_as_wide_as_its_addresses():
    assert lay_out("t", hosts("10.1.0.1", "10.1.3.1"), MTU).prefix_length == 22


def delayed() -> Topology:
    links = [Link(id="l", source="w0", target="switch", delay_s=0.001)]
    return star(1).model_copy(update={"links": links})


def ring() -> Topology:
    nodes = [Node(name=n, kind="switch") for n in "abc"] + [Node(name="w", kind="worker")]
    links = [Link(id=x + y, source=x, target=y) for x, y in ("ab", "bc", "ca", "wa")]
    return Topology(name="ring", nodes=nodes, links=links)


def parted() -> Topology:
    return Topology(name="t", nodes=[*star(1).nodes, Node(name="far", kind="switch")], links=star(1).links)


REFUSED = {
    "every host has one": lambda: lay_out("t", star(2).model_copy(update={"links": []}), MTU),
    "cannot delay packets": lambda: lay_out("t", delayed(), MTU),
    "has a cycle": lambda: lay_out("t", ring(), MTU),
    "cannot be reached": lambda: lay_out("t", parted(), MTU),
    "too large for XDP": lambda: lay_out("t", star(2), 9000, ("switch",)),
    "both sum in XDP": lambda: lay_out("t", switch_of_switches(), MTU, ("left", "right")),
    "too far apart": lambda: lay_out("t", hosts("10.0.0.1", "192.168.0.1"), MTU),
    "mixes IPv4 and IPv6": lambda: lay_out("t", hosts("10.0.0.1", "fd00::1"), MTU),
}


@pytest.mark.parametrize(("message", "make"), REFUSED.items(), ids=list(REFUSED))
def test_what_namespaces_cannot_be_is_refused_with_the_reason(message, make):
    with pytest.raises(TopologyError) as refused:
        make()
    assert message in str(refused.value)
