"""Light that a driver before has left: it goes where it is in the way, and a stranger's stays."""

import pytest
from tests.circuits.switches import device, pair, served
from tests.turns.networks import network
from tests.turns.test_adjustment import without

from wiresum.circuits.device import both_ways
from wiresum.errors import CircuitError
from wiresum.topology.circuits import fibres
from wiresum.topology.optical import Circuit
from wiresum.turns.light import Light, Look


def ordered(lit, left=()):
    """What is connected after an order of u0 – u1, where the port of u2 has failed and these pairs were lit."""
    topology, own = network(), device()
    port = {fibre.unit: fibre.port.name for fibre in fibres(topology)}
    names = {"u0": port["u0"], "u1": port["u1"], "u2": port["u2"], "stranger": "7"}
    own.crossbar.order(0.0, [], both_ways(pair(*(names[end] for end in ends)) for ends in lit))
    with served("emulated", own) as driver:
        light = Light(without(topology, "u2-1"), {"oxc": driver})
        light.inherit([("oxc", *sorted(names[end] for end in ends)) for ends in left])
        light.order([Circuit(switch="oxc", links=["u0-1", "u1-1"])])
        back = {number: name for name, number in names.items()}
        return {frozenset(back[end] for end in one) for one in own.crossbar.connections}


WANTED = frozenset({"u0", "u1"})


def test_a_circuit_of_a_driver_before_is_taken_down_where_the_topology_has_lost_a_port():
    assert ordered([("u1", "u2")], left=[("u1", "u2")]) == {WANTED}


def test_a_circuit_that_nobody_noted_is_a_strangers_and_named():
    with pytest.raises(CircuitError, match="one of the ports is not ours; disconnect them, or own both"):
        ordered([("u1", "u2")])


def test_a_stranger_who_has_the_failed_port_now_keeps_its_circuit():
    assert ordered([("u2", "stranger")], left=[("u1", "u2")]) == {WANTED, frozenset({"u2", "stranger"})}


def test_devices_say_which_circuits_are_there_and_which_have_failed():
    own, one = device(), Circuit(switch="oxc", links=["u0-1", "u1-1"])
    with served("emulated", own) as driver:
        light = Light(network(), {"oxc": driver})
        light.order([one])
        assert light.look([one]) == Look(has_all=True, failed=frozenset())
        assert not light.look([]).has_all
        (port, _) = next(iter(own.crossbar.connections))
        own.crossbar.faults.failing[port] = "dust"
        own.crossbar.order(0.0, own.crossbar.connections, own.crossbar.connections)
        seen = light.look([one])
        assert seen.failed == {frozenset(one.links)}
        assert seen.has_all
