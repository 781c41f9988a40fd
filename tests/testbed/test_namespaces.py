"""Testbeds of namespaces; skipped aloud without the privilege."""

import json
import socket
import subprocess
import sys

import pytest
from tests.testbed.traces import WAIT_S, existing

from wiresum.errors import SupportError, TestbedError, TopologyError
from wiresum.testbed import Testbed, run
from wiresum.testbed import namespaces as ns
from wiresum.testbed.layout import lay_out
from wiresum.testbed.neighbours import MOST_ASKED
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Link, Node, Topology

pytestmark = pytest.mark.usefixtures("namespaces")

MEGABYTE = 1 << 20
RECEIVE = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
connection, _ = socket.create_server((sys.argv[1], 7000), family=family).accept()
while connection.recv(1 << 16):
    pass
"""
SEND = """
import socket, sys, time
for _ in range(200):
    try:
        connection = socket.create_connection((sys.argv[1], 7000))
        break
    except OSError:
        time.sleep(0.05)
connection.sendall(bytes(int(sys.argv[2])))
"""


def transfer(bed: Testbed, source: str, target: str, size_bytes: int) -> None:
    """Sends bytes over TCP from one host to another."""
    receiver = bed.spawn(target, [sys.executable, "-c", RECEIVE, bed.address(target)])
    sender = bed.spawn(source, [sys.executable, "-c", SEND, bed.address(target), str(size_bytes)])
    assert sender.wait(WAIT_S) == 0
    assert receiver.wait(WAIT_S) == 0


@pytest.mark.parametrize("topology", [star(1), star(8, rate_bps=None), xagg()], ids=["one", "unlimited", "xagg"])
def test_a_topology_comes_up_delivers_and_goes(name, topology):
    with Testbed(topology, name=name) as bed:
        assert set(bed.network.namespaces.values()) <= set(existing(name))
        assert bed.left_out == []
    assert existing(name) == []


def test_hosts_know_each_other_by_name(name):
    with Testbed(star(2), name=name) as bed:
        probe = "import socket; print(socket.gethostbyname('w1'))"
        child = bed.spawn("w0", [sys.executable, "-c", probe], stdout=subprocess.PIPE)
        assert child.communicate(timeout=WAIT_S)[0].decode().strip() == bed.address("w1")


@pytest.mark.parametrize("rate_bps", [1e9, None], ids=["shaped", "unlimited"])
def test_traffic_is_counted_in_its_direction(name, rate_bps):
    with Testbed(star(2, rate_bps), name=name) as bed:
        before = bed.link_traffic()
        transfer(bed, "w0", "w1", 4 * MEGABYTE)
        added = {link: seen.since(before[link]) for link, seen in bed.link_traffic().items()}
    for sent in (added["w0"].forward, added["w1"].backward):
        assert 4 * MEGABYTE <= sent.bytes <= 5 * MEGABYTE
    for acknowledgements in (added["w0"].backward, added["w1"].forward):
        assert acknowledgements.bytes < MEGABYTE
    assert added["w0"].busiest_bytes == added["w0"].forward.bytes


def test_many_hosts_know_each_other_without_asking(name):
    """32 that all ask for each other are more neighbours than a kernel keeps."""
    with Testbed(star(MOST_ASKED, rate_bps=None), name=name) as bed:
        show = ["ip", "-n", bed.network.namespaces["w1"], "-j", "neigh", "show", "nud", "permanent"]
        known = {entry["dst"] for entry in json.loads(ns.run_tool(show))}
        assert known == {bed.address(node) for node in bed.network.namespaces if node != "w1"}
        transfer(bed, "w1", "w0", MEGABYTE)


def test_ipv6_works_too(name):
    nodes = [Node(name=f"h{i}", kind="worker", address=f"fd00::{i + 1}") for i in range(2)]
    links = [Link(id=node.name, source=node.name, target="s", bandwidth_bps=1e9) for node in nodes]
    topology = Topology(name="six", nodes=[*nodes, Node(name="s", kind="switch")], links=links)
    with Testbed(topology, name=name) as bed:
        transfer(bed, "h0", "h1", MEGABYTE)


def test_two_testbeds_live_side_by_side(name):
    with Testbed(star(2), name=name) as first, Testbed(star(2), name=f"{name}b") as second:
        transfer(first, "w0", "w1", MEGABYTE)
        transfer(second, "w0", "w1", MEGABYTE)
    assert existing(name) == existing(f"{name}b") == []


def test_a_link_that_does_not_deliver_is_named(name, monkeypatch):
    create = ns.create

    def broken(layout):
        create(layout)
        ns.run_tool(["ip", "-n", layout.namespaces["w1"], "link", "set", "e0", "down"])

    monkeypatch.setattr("wiresum.testbed.delivery.ATTEMPTS", 2)
    monkeypatch.setattr("wiresum.testbed.namespaces.create", broken)
    with pytest.raises(TestbedError, match="no delivery between w0 and w1; look at the links w0, w1"):
        Testbed(star(3), name=name).up()
    assert existing(name) == []


def test_a_command_that_a_tool_refuses_is_quoted(name):
    layout = lay_out(name, star(1), 3200)
    try:
        ns.create(layout)
        with pytest.raises(TestbedError, match=f"File exists.*netns add ws-{name}-w0"):
            ns.create(layout)
    finally:
        ns.remove(layout.namespaces.values())
    assert existing(name) == []


def test_a_missing_tool_is_named():
    with pytest.raises(SupportError, match="install iproute2"):
        ns.run_tool(["ip-that-is-not-there"])


def test_work_inside_a_namespace_leaves_the_others_where_they_are(name):
    with Testbed(star(1), name=name) as bed:
        names = ns.inside(bed.network.namespaces["w0"], socket.if_nameindex)
        assert "e0" in [interface for _, interface in names]
        assert "e0" not in [interface for _, interface in socket.if_nameindex()]
    with pytest.raises(TestbedError, match="make the testbed again"):
        ns.inside(bed.network.namespaces["w0"], socket.if_nameindex)


def test_an_unknown_node_and_a_testbed_that_is_down_are_errors(name):
    bed = Testbed(star(1), name=name)
    with pytest.raises(TestbedError, match="not up"):
        bed.spawn("w0", ["true"])
    with bed, pytest.raises(TopologyError, match="no node w7"):
        bed.spawn("w7", ["true"])


def test_a_command_runs_at_every_worker(name):
    lines = []
    with Testbed(star(3), name=name) as bed:
        outcome = run(
            bed, ["sh", "-c", "echo $NODE_RANK of $WORLD_SIZE at $MASTER_ADDR"], lambda *line: lines.append(line)
        )
    assert outcome.exit_codes == [0, 0, 0]
    assert sorted(lines) == [(rank, False, f"{rank} of 3 at 10.99.0.1") for rank in range(3)]
    assert set(outcome.traffic) == {"w0", "w1", "w2"}
