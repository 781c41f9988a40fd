"""Drivers and the protocols' servers: each order, each fault of a session, and answers that make no sense."""

import contextlib
from random import Random

import pytest
from tests.circuits.switches import PROTOCOLS, Clock, crossbar, device, pair, random_pairs, served

from wiresum.circuits.control import apply, wait_for_light, watch
from wiresum.circuits.device import State, both_ways
from wiresum.circuits.drivers import DRIVERS, connect
from wiresum.circuits.emulator.server import HOST, SERVERS, Device, Serving
from wiresum.errors import CircuitError, CircuitSessionError

OURS = [str(port) for port in range(1, 7)]
STRANGERS = (("7", "8"), ("8", "7"))
SEEDS = range(8)
QUICK_S = 0.3
"""Patience with answers that never come."""


@pytest.fixture(params=PROTOCOLS)
def protocol(request):
    return request.param


def test_every_protocol_that_is_served_has_a_driver():
    assert set(SERVERS) == set(DRIVERS) - {"sonic"}


def test_a_driver_says_what_the_device_is(protocol):
    with served(protocol, device(ports=6)) as driver:
        assert set(driver.describe().sides) == set("123456")
        reading = driver.read()
        assert not reading.connections
        assert {state.state for state in reading.states.values()} == {State.DARK}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_device_has_what_is_wanted_after_every_order_and_strangers_keep_theirs(protocol, seed):
    random, own = Random(seed), device()
    own.crossbar.order(0.0, [], STRANGERS)
    with served(protocol, own) as driver:
        for _ in range(6):
            wanted = random_pairs(random, OURS)
            before = own.crossbar.connections
            change = apply(driver, wanted, OURS)
            assert own.crossbar.connections == both_ways(wanted) | set(STRANGERS)
            assert change.removed == before - both_ways(wanted) - set(STRANGERS)
            assert change.attempts == (before != own.crossbar.connections)
            orders = own.crossbar.generation
            assert apply(driver, wanted, OURS).attempts == 0
            assert own.crossbar.generation == orders, "the same order twice changed something"


FAULTS = ["late", "silent", "drop", "done-drop", "half", "cut", "foreign"]


@pytest.mark.parametrize("seed", SEEDS)
def test_faults_of_sessions_leave_nothing_that_nobody_planned_and_are_mended_by_the_next_order(protocol, seed):
    random, own = Random(1000 + seed), device()
    own.crossbar.order(0.0, [], STRANGERS)
    with Serving(own, {protocol: (HOST, 0)}) as serving:
        hasty, patient = connect(serving.url(protocol, timeout=QUICK_S)), connect(serving.url(protocol))
        for _ in range(4):
            wanted = random_pairs(random, OURS)
            before = own.crossbar.connections
            weights = [8, 1, 4, 4, 8, 4, 4]
            own.faults.extend(random.choices(FAULTS, weights, k=random.randrange(4)))
            try:
                apply(hasty, wanted, OURS)
            except CircuitError:
                assert own.crossbar.connections <= before | both_ways(wanted), "light that nobody planned"
            else:
                assert own.crossbar.connections == both_ways(wanted) | set(STRANGERS)
            assert own.crossbar.connections >= set(STRANGERS)
            own.faults.clear()
            apply(patient, wanted, OURS)
            assert own.crossbar.connections == both_ways(wanted) | set(STRANGERS)
        hasty.close()
        patient.close()


def mangled(random, answer):
    """An answer with some bytes cut, doubled, changed or put in."""
    data = bytearray(answer)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(data) + 1)
        match random.randrange(4):
            case 0:
                del data[at : at + random.randint(1, 8)]
            case 1:
                data[at:at] = data[max(0, at - 8) : at]
            case 2 if at < len(data):
                data[at] = random.randrange(256)
            case _:
                data[at:at] = random.choice([b"\n", b";", b'"', b"{", b"\xff", b"1", b"-", b","])
    return bytes(data)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_answer_that_makes_no_sense_is_an_error_by_name_and_the_next_session_is_sound(protocol, seed):
    random, own = Random(seed), device(ports=4)
    own.crossbar.order(0.0, [], [("1", "2"), ("2", "1")])
    with Serving(own, {protocol: (HOST, 0)}) as serving:
        for _ in range(6):
            driver = connect(serving.url(protocol, timeout=0.1))
            own.mangle = lambda answer: mangled(random, answer)
            with contextlib.suppress(CircuitError):
                driver.describe()
            with contextlib.suppress(CircuitError):
                driver.read()
            with contextlib.suppress(CircuitError):
                driver.change([("1", "2")], [("3", "4")])
            own.mangle = lambda answer: answer
            driver.close()
        sound = connect(serving.url(protocol))
        assert sound.read().connections == own.crossbar.connections
        sound.close()


def test_watching_shows_darkness_tuning_and_light_where_the_device_says_so():
    clock = Clock()
    own = Device(crossbar(4, 0.02, 0.01), clock=clock)
    with served("emulated", own) as driver:
        apply(driver, {pair(1, 2)}, "1234")

        def sleep(seconds):
            clock.now_s += seconds

        seen = [(round(at, 3), port, one.state) for at, port, one in watch(driver, ["1"], 5.0, clock, sleep)]
    assert [(port, state) for _, port, state in seen] == [("1", State.DARK), ("1", State.TUNING), ("1", State.LIT)]
    assert seen[1][0] == pytest.approx(0.02, abs=0.003)
    assert seen[2][0] == pytest.approx(0.03, abs=0.003)


def test_light_comes_and_a_failed_port_is_named(protocol):
    own = device(dark_s=0.001)
    with served(protocol, own, light=0.01) as driver:
        apply(driver, {pair(1, 2)}, OURS)
        wait_for_light(driver, {pair(1, 2)})
        own.crossbar.faults.failing["3"] = "mirror 7"
        apply(driver, {pair(1, 2), pair(3, 4)}, OURS)
        if protocol == "polatis-scpi":
            return  # It knows nothing of light.
        ends = {port: state for _, port, state in watch(driver, ["1", "3", "4"], 0.3)}
    assert ends["1"].state is State.LIT
    assert {ends["3"].state, ends["4"].state} == {State.FAILED}
    assert ends["3"].reason


def test_a_device_that_lies_is_found_out_by_a_probe():
    own = device(dark_s=0.0)
    own.crossbar.faults.lying.add("1")

    def probe(ports):
        return all(own.crossbar.passes(own.clock(), port) for port in ports)

    with served("emulated", own) as driver:
        apply(driver, {pair(1, 2), pair(3, 4)}, OURS)
        wait_for_light(driver, {pair(1, 2)})
        with pytest.raises(CircuitError, match="1 – 2: the device says `lit`, and nothing gets through"):
            wait_for_light(driver, {pair(1, 2), pair(3, 4)}, probe)


def test_a_power_meter_finds_it_out_too():
    own = device(dark_s=0.0)
    own.crossbar.faults.lying.add("1")
    with served("polatis-rest", own) as driver:
        apply(driver, {pair(1, 2)}, OURS)
        ends = {port: state for _, port, state in watch(driver, ["1"], 0.05)}
    assert ends["1"].reason == "tuning after 0.05 s"


def test_a_stuck_port_is_named(protocol):
    own = device()
    own.crossbar.order(0.0, [], [("1", "2"), ("2", "1")])
    own.crossbar.faults.stuck.add("1")
    with served(protocol, own) as driver, pytest.raises(CircuitError, match="does not do as ordered: 1 → 2 is there"):
        apply(driver, {pair(2, 3)}, OURS)


def test_half_a_circuit_is_completed(protocol):
    own = device()
    own.crossbar.order(0.0, [], [("1", "2")])
    with served(protocol, own) as driver:
        apply(driver, {pair(1, 2)}, OURS)
    assert own.crossbar.connections == both_ways({pair(1, 2)})


def test_what_a_stranger_has_changed_is_named_and_not_overwritten():
    own = device()
    with served("emulated", own) as driver:
        apply(driver, {pair(1, 2)}, OURS)
        own.crossbar.order(0.0, [("1", "2"), ("2", "1")], [("1", "3"), ("3", "1")])
        with pytest.raises(CircuitError, match="someone else has changed the device: 1 → 3 is there"):
            apply(driver, {pair(1, 4)}, OURS, expected={pair(1, 2)})
        assert own.crossbar.connections == both_ways({pair(1, 3)})
        apply(driver, {pair(1, 4)}, OURS)


@pytest.mark.parametrize(
    ("wanted", "owned", "named"),
    [
        ({pair(1, 9)}, [*OURS, "9"], "the device has no port 9; it has 8 ports, 1 to 8"),
        ({pair(1, 2), pair(2, 3)}, OURS, "port 2 is in two circuits"),
        ({frozenset({"1"})}, OURS, "port 1 cannot be joined to itself"),
        ({pair(1, 7)}, OURS, "port 7 is not ours, so it is not touched"),
        ({pair(1, 2)}, ["1", "2", "7"], "7 → 8: one of the ports is not ours"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_ordered(wanted, owned, named):
    own = device()
    own.crossbar.order(0.0, [], STRANGERS)
    with served("emulated", own) as driver, pytest.raises(CircuitError, match=named):
        apply(driver, wanted, owned)
    assert own.crossbar.orders == 1


def test_sides_are_checked_before_the_order():
    own = Device(crossbar(4))
    own.crossbar.sides = {"1A": "A", "2A": "A", "1B": "B", "2B": "B"}
    with served("emulated", own) as driver, pytest.raises(CircuitError, match="1A – 2A: both ports are on side A"):
        apply(driver, {frozenset({"1A", "2A"})}, own.crossbar.sides)


def test_a_put_that_comes_too_late_is_refused_where_versions_are_kept():
    own = device()
    with served("polatis-rest", own) as driver:
        driver.describe()
        told = []

        def tap(direction, data):
            told.append(direction)
            if told.count("<") == 1 and direction == "<":  # The collection was got, and is not put yet.
                own.crossbar.order(0.0, [], STRANGERS)

        own.tap = tap
        with pytest.raises(CircuitError, match="someone else has changed the device meanwhile"):
            driver.change([], [("1", "2"), ("2", "1")])
    assert own.crossbar.connections == set(STRANGERS)


def test_messages_that_nobody_asked_for_are_no_answers():
    told = []
    own = Device(crossbar(4), tap=lambda direction, data: told.append(data) if direction == "<" else None)
    with served("calient-tl1", own) as driver:
        driver.read()
    assert sum(b"REPT EVT" in one for one in told) == 1, "the login comes before they are inhibited"


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("polatis://h", "names no driver; write DRIVER://HOST with one of emulated, polatis-rest"),
        ("10.0.0.7", "names no driver"),
        ("polatis-scpi://", "no address of a device"),
        ("polatis-scpi://h:many", "no address of a device"),
        ("polatis-scpi://h?light=soon", "light=soon is not a number"),
    ],
)
def test_a_bad_address_is_refused(url, named):
    with pytest.raises(CircuitError, match=named):
        connect(url)


def test_a_device_that_is_not_there_is_named(protocol):
    with Serving(device(), {protocol: (HOST, 0)}) as serving:
        url = serving.url(protocol)
    with pytest.raises(CircuitSessionError, match=HOST):
        apply(connect(url), {pair(1, 2)}, OURS)


def test_protocols_that_number_ports_refuse_other_names():
    own = Device(crossbar(2))
    own.crossbar.sides = {"1A": "A", "1B": "B"}
    with pytest.raises(CircuitError, match="numbers its ports"), served("polatis-rest", own):
        pass
