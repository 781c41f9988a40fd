"""The model of an optical switch against one that remembers every order and works light out anew each time."""

import math
import os
from random import Random

import pytest
from tests.circuits.switches import crossbar

from wiresum.circuits.device import State
from wiresum.circuits.emulator.crossbar import Crossbar
from wiresum.errors import CircuitError

SEQUENCES = int(os.environ.get("WIRESUM_SEQUENCES", "10000"))
STEPS = 12
PORTS = 6


class Remembering:
    """All accepted orders, and what follows from them, step by step."""

    def __init__(self, switch, units):
        self.switch, self.units = switch, units
        self.there = {}
        """Connection → when it lost its light last, and whether it ever gets some."""

    def order(self, now_s, remove, add):
        stuck = self.switch.faults.stuck
        moves = {one for one in remove if one in self.there and not stuck & set(one)}
        kept = set(self.there) - moves
        new = [one for one in add if one not in kept and not stuck & set(one)]
        new = [one for one in new if not any(one[0] == old[0] or one[1] == old[1] for old in kept)]
        for one in moves:
            del self.there[one]
        touched = {self.units.get(port, port) for one in (*moves, *new) for port in one}
        for one in self.there:
            hit = {
                "added": False,
                "units": bool(touched & {self.units.get(port, port) for port in one}),
                "all": bool(moves or new),
            }[self.switch.darkens]
            if hit:
                self.there[one] = now_s, self.gets_light(one)
        for one in new:
            self.there[one] = now_s, self.gets_light(one)

    def gets_light(self, one):
        return not set(one) & (set(self.switch.faults.failing) | self.switch.faults.lying)

    def passes(self, now_s, port):
        for (source, target), (since_s, light) in self.there.items():
            if source == port and light and now_s >= since_s + self.switch.dark_s + self.switch.settle_s:
                return target
        return None


def a_fault(random, switch):
    port = str(random.randint(1, PORTS))
    match random.randrange(8):
        case 0:
            switch.faults.failing[port] = "mirror"
        case 1:
            switch.faults.lying.add(port)
        case 2:
            switch.faults.stuck.add(port)
        case _:
            switch.faults.failing.clear()
            switch.faults.lying.clear()
            switch.faults.stuck.clear()


def some(random, count):
    return [(str(random.randint(1, PORTS)), str(random.randint(1, PORTS))) for _ in range(random.randrange(count))]


def run(seed):
    random = Random(seed)
    units = {str(port): f"u{port % 3}" for port in range(1, PORTS + 1)}
    darkens = random.choice(["added", "units", "all"])
    switch = crossbar(PORTS, random.choice([0.0, 1.0]), random.choice([0.0, 0.5]), darkens=darkens, units=units)
    model, now_s = Remembering(switch, units), 0.0
    for _ in range(STEPS):
        now_s += random.choice([0.0, 0.25, 0.5, 1.0, 2.0])
        if random.random() < 0.2:
            a_fault(random, switch)
        remove = some(random, 4) + [one for one in switch.connections if random.random() < 0.3]
        add = some(random, 3)
        before = switch.connections
        try:
            switch.order(now_s, remove, add)
        except CircuitError:
            assert switch.connections == before
        else:
            model.order(now_s, remove, add)
        assert switch.connections == set(model.there)
        into = [switch.passes(now_s, port) for port in switch.sides]
        assert into == [model.passes(now_s, port) for port in switch.sides]
        lit = [port for port in into if port]
        assert len(lit) == len(set(lit)), "two lights leave by one port"


@pytest.mark.parametrize("part", range(10))
def test_light_is_where_the_orders_lead_it_and_nowhere_else(part):
    for seed in range(part, SEQUENCES, 10):
        try:
            run(seed)
        except BaseException:
            print(f"seed {seed}")
            raise


def test_a_port_goes_from_darkness_to_tuning_to_light():
    switch = crossbar(2, 1.0, 0.5)
    switch.order(10.0, [], [("1", "2"), ("2", "1")])
    seen = [switch.state(10.0 + seconds, "1").state for seconds in (0.0, 0.99, 1.0, 1.49, 1.5, math.inf)]
    assert seen == [State.DARK, State.DARK, State.TUNING, State.TUNING, State.LIT, State.LIT]
    switch.order(20.0, [("1", "2")], [])
    assert switch.passes(20.0, "1") is None
    assert switch.passes(20.0, "2") == "1"


def test_what_stays_keeps_its_light_where_only_added_circuits_are_dark():
    switch = crossbar(4, 1.0)
    switch.order(0.0, [], [("1", "2")])
    switch.order(5.0, [], [("1", "2"), ("3", "4")])
    assert switch.passes(5.0, "1") == "2"
    assert switch.passes(5.0, "3") is None


@pytest.mark.parametrize(
    ("add", "named"),
    [
        ([("1", "9")], "no port 9"),
        ([("1", "1")], "joined to itself"),
        ([("1", "2"), ("1", "3")], "a connection into port 1 already"),
        ([("1", "2"), ("3", "2")], "a connection out of port 2 already"),
    ],
)
def test_an_order_that_cannot_be_changes_nothing(add, named):
    switch = crossbar(4)
    switch.order(0.0, [], [("3", "4")])
    with pytest.raises(CircuitError, match=named):
        switch.order(1.0, [("3", "4")], add)
    assert switch.connections == {("3", "4")}


def test_sides_do_not_meet_themselves():
    switch = Crossbar({"1A": "A", "2A": "A", "1B": "B"}, 0.0)
    with pytest.raises(CircuitError, match="same side"):
        switch.order(0.0, [], [("1A", "2A")])
    switch.order(0.0, [], [("1A", "1B"), ("1B", "1A")])


def test_faults_show_in_states_as_the_device_sees_them():
    switch = crossbar(6, 0.0)
    switch.faults.failing["1"] = "mirror 7"
    switch.faults.lying.add("3")
    switch.order(0.0, [], [("1", "2"), ("3", "4"), ("5", "6")])
    assert (switch.state(1.0, "2").state, switch.state(1.0, "2").reason) == (State.FAILED, "mirror 7")
    assert switch.state(1.0, "3").state is State.LIT
    assert [switch.passes(1.0, port) for port in ("1", "3", "5")] == [None, None, "6"]
    assert switch.power_dbm(1.0, "6") > -30 > switch.power_dbm(1.0, "4")
