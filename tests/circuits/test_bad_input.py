"""Bad input of optical circuits: each is an error that says what is wrong where, and what to do about it.

What a device does wrong within a session is in the table at the end. A device that lies, is stuck or was changed by a
stranger is in `test_drivers.py`, and live in `tests/turns/test_live.py`.
"""

import json
from types import SimpleNamespace

import pytest
from tests.circuits.switches import PROTOCOLS, device, pair, served
from tests.turns.networks import SLOT_S, network, star, three_jobs, timetable_of, tree_jobs, turns_of, workload

from wiresum.circuits.control import ATTEMPTS, apply
from wiresum.circuits.device import both_ways
from wiresum.errors import CircuitError, ScheduleError, TopologyError, WiresumError, WorkloadError
from wiresum.gates.listener import Gates
from wiresum.plan.shared import SharedNetwork
from wiresum.topology.generators.optical import optical
from wiresum.topology.model import Topology
from wiresum.topology.optical import Circuit
from wiresum.turns.light import Light, Look
from wiresum.turns.plans import as_schedule
from wiresum.turns.stage import MOST_RESTORED, Stage
from wiresum.workload.coflows import coflows
from wiresum.workload.instance import instance
from wiresum.workload.model import Workload

OURS = [str(port) for port in range(1, 7)]


def with_ports(change):
    """The small network with other ports at its optical switch."""
    document = json.loads(network().model_dump_json(exclude_none=True))
    (switch,) = (node for node in document["nodes"] if node["kind"] == "oxc")
    change(switch["oxc"]["ports"])
    return Topology.build(**document)


def lit(topology, *circuits):
    made = [Circuit(switch=switch, links=links) for switch, links in circuits]
    return topology.with_circuits(made)


def fibres_of(**more):
    return optical(3, 1, 1, ports=2, rate_bps=1e6, dark_s=0.02, **more)


def read_jobs(*jobs):
    return Workload.parse(json.dumps({"name": "jobs", "jobs": list(jobs)}))


def fought_over():
    """A stage at a device whose circuits someone else changes all the time."""
    topology, schedule = network(), turns_of(network(), three_jobs())
    ordered = SimpleNamespace(added=1, removed=1, failed={})
    changed = Look(has_all=False, failed=frozenset())
    light = SimpleNamespace(look=lambda wanted: changed, order=lambda wanted, doubtful: ordered)
    gates = SimpleNamespace(results=lambda jobs: {})
    stage = Stage(SharedNetwork.of(schedule, topology), light, None, gates, lambda line: None)
    stage._has_ordered = True
    for _ in range(MOST_RESTORED + 1):
        stage._keep_light()


CASES = {
    "an end without a port": (
        lambda: with_ports(list.pop),
        TopologyError,
        "link u2-1 ends at no port of oxc; give it one",
    ),
    "a port twice": (
        lambda: with_ports(lambda ports: ports.append(ports[0])),
        TopologyError,
        "two have the name 1; each needs its own",
    ),
    "a fibre at two ports": (
        lambda: with_ports(lambda ports: ports.append({"name": "9", "link": "u0-1"})),
        TopologyError,
        "two have the link u0-1; each needs its own",
    ),
    "a port in two circuits": (
        lambda: lit(network(), ("oxc", ["u0-1", "u1-1"]), ("oxc", ["u0-1", "u2-1"])),
        TopologyError,
        "port 1 of oxc is in two circuits; a port is in one circuit",
    ),
    "side A to side A": (
        lambda: lit(fibres_of(sides=2), ("oxc", ["u0-1", "u1-1"])),
        TopologyError,
        "ports 1A and 2A of oxc are both on side A; join A to B",
    ),
    "ports of two optical switches": (
        lambda: lit(fibres_of(switches=2), ("oxc0", ["u0-1", "u1-2"])),
        TopologyError,
        "u1-2 ends at oxc1: a circuit is in one switch; take a fibre of oxc0",
    ),
    "a job in more units than ports": (
        lambda: instance(network(4), workload(star("wide", {"u0": 1, "u1": 1, "u2": 1}, "u3", 1)), SLOT_S),
        WorkloadError,
        "job wide: workers in 3 units send to u3 at once, which has 1 ports; give it more ports, put it in fewer "
        "units, let switches sum it along a tree, or make it a coflow",
    ),
    "bytes that no number of slots carries": (
        lambda: timetable_of(network(), workload(star("huge", {"u0": 1}, "u1", 10**15))),
        WorkloadError,
        "job huge: 1e+15 bytes take 3.2e+08 slots of 0.5 s, and there are 100000 at most; make slots longer",
    ),
    "an arrival after the last slot": (
        lambda: timetable_of(network(), workload(star("late", {"u0": 1}, "u1", 1, arrival_s=1e6))),
        WorkloadError,
        "job late: it comes after 2e+06 slots of 0.5 s, and there are 100000 at most",
    ),
    "a slot shorter than darkness and settling": (
        lambda: instance(network(settle_s=0.01), three_jobs(), 0.025),
        WorkloadError,
        "a slot of 0.025 s is over before oxc has light (0.03 s); make it longer",
    ),
    "no place, and no server": (
        lambda: timetable_of(network(places=0), workload({"name": "alone", "workers": {"u0": 2}, "bytes": 1})),
        WorkloadError,
        "job alone: its workload names no server, and the switch of u0 has no place to sum it; name a",
    ),
    "arrivals that go back": (
        lambda: read_jobs(star("a", {"u0": 1}, "u0", 1, arrival_s=2.0), star("b", {"u0": 1}, "u0", 1, arrival_s=1.0)),
        WorkloadError,
        "b comes at 1.0 s, before a at 2.0 s; sort the jobs by arrival",
    ),
    "a trace without one of its reducers": (
        lambda: coflows("6 1\n1 0 1 3 2 4:5\n", ["u0", "u1"]),
        WorkloadError,
        "line 2: it should have 2 reducers, and has 1",
    ),
    "a schedule for another topology": (
        lambda: SharedNetwork.of(turns_of(network(4, ports=2, places=2), tree_jobs()), network(2)),
        TopologyError,
        "u3-1 is no fibre of oxc; name one that is",
    ),
    "a timetable of other jobs": (
        lambda: as_schedule(
            timetable_of(network(), three_jobs()), network(), workload(star("one", {"u0": 1}, "u0", 1))
        ),
        ScheduleError,
        " of the timetable is not in the workload; give its own workload",
    ),
    "an optical switch without a driver": (
        lambda: Light(network(), {}),
        ScheduleError,
        "optical switch oxc has no driver; name it, as --driver URL",
    ),
    "two schedules on one device": (
        fought_over,
        ScheduleError,
        "someone else has changed circuits of oxc 10 times, as another schedule does "
        "that is carried out at the same device; end one of the two",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_an_error_that_names_what_is_wrong_and_the_remedy(case):
    made, kind, named = CASES[case]
    with pytest.raises(kind) as raised:
        made()
    assert named in str(raised.value)
    assert isinstance(raised.value, WiresumError)


def test_two_drivers_at_one_address_are_refused():
    with (
        Gates("127.0.0.1:0", {}) as there,
        pytest.raises(ScheduleError, match=r"cannot listen at .*; give --listen another"),
    ):
        Gates(there.address, {})


@pytest.mark.parametrize("fault", ["late", "silent", "drop", "done-drop", "half", "cut", "foreign"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_device_with_a_bad_session_does_as_ordered_in_the_end_or_is_named(protocol, fault):
    """Once it is overcome, always it is an error; neither leaves light that nobody planned."""
    own = device()
    with served(protocol, own, timeout=0.3) as driver:
        own.faults.append(fault)
        if trouble(driver, {pair(1, 2)}):
            apply(driver, {pair(1, 2)}, OURS)
        assert own.crossbar.connections == both_ways({pair(1, 2)})
        own.faults.extend([fault] * 10 * ATTEMPTS)
        said = trouble(driver, {pair(3, 4)})
        assert not said or any(name in said for name in ("127.0.0.1", "1 → 2", "3 → 4", "device"))
        assert own.crossbar.connections <= both_ways({pair(1, 2), pair(3, 4)})


def trouble(driver, wanted):
    """What an order's error says; nothing where there is none."""
    try:
        apply(driver, wanted, OURS)
    except CircuitError as error:
        return str(error)
    return ""
