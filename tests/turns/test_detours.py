"""Jobs that have begun and whose circuits fail go over to circuits that are left; every sum is exact."""

import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.turns.networks import SLOT_S, network, star, timetable_of, turns_of, workload

from wiresum.deploy import control
from wiresum.plan.shared import SharedNetwork
from wiresum.turns.detours import Detours
from wiresum.turns.driver import plans_of
from wiresum.turns.live import RANK, TurnsBed, run_jobs
from wiresum.turns.nodes import from_root
from wiresum.turns.online import Online
from wiresum.turns.plans import as_schedule, carried
from wiresum.turns.ports import Ports, all_circuits
from wiresum.workload.instance import instance

TRAINING = [sys.executable, "-m", "wiresum.demo.job"]
SIZE, ITERATIONS = 1_000_000, 12


def far(name="far", one="u0", other="u1", iterations=ITERATIONS):
    return star(name, {one: 1, other: 1}, other, SIZE, iterations=iterations)


def run_and_cut(bed, jobs, command, fault, port_of):
    """Runs jobs; once job 1 has results, the port that `port_of` names has no light any more, for good."""
    lines = []

    def cut():
        while not bed.gates.results([1])[1]:
            time.sleep(0.02)
        crossbar, port = bed.bed.optical_switch("oxc").device.crossbar, port_of()
        if fault == "failing":
            crossbar.faults.failing[port] = "dust"
        else:
            crossbar.faults.lying.add(port)
        crossbar.order(time.monotonic(), crossbar.connections, crossbar.connections)

    cutter = threading.Thread(target=cut)
    cutter.start()
    live = run_jobs(bed, jobs, command, lambda *line: lines.append(line), lambda line: lines.append(("driver", line)))
    cutter.join()
    assert live.exit_code == 0, "\n".join(map(str, lines))
    assert {turn.end for turn in live.seen.turns.values()} == {"done"}
    assert all(not bed.nodes.served(node) for node in bed.nodes.sockets)
    return live, "\n".join(str(line[-1]) for line in lines)


def first_port(plan):
    """The first of the two ports that a plan's circuit joins."""
    return next(link.id for link in plan.fabric.links if link.id.startswith("oxc.")).removeprefix("oxc.").split("-")[0]


def scheduled(topology, jobs, name, **more):
    schedule = as_schedule(timetable_of(topology, jobs, **more), topology, jobs)
    return TurnsBed(topology, schedule, name=name)


@pytest.mark.parametrize(("fault", "command"), [("failing", RANK), ("lying", RANK), ("failing", TRAINING)])
def test_a_job_goes_over_to_a_circuit_that_is_left(namespaces, name, fault, command):
    """Its ranks know nothing of it, and have no other network."""
    topology, jobs = network(2, hosts=1, ports=2), workload(far())
    with scheduled(topology, jobs, name) as bed:
        live, said = run_and_cut(bed, jobs, command, fault, lambda: first_port(bed.plans[1]))
        port = first_port(bed.plans[1])
    last = live.seen.moves[-1].instead
    assert port not in last.removeprefix("oxc.").split("-")
    assert f"job 1 goes over to circuit {last}" in said
    assert live.seen.setups > 1


def test_a_job_goes_over_where_its_nodes_hear_of_it_one_after_another(namespaces, name, monkeypatch):
    """As where the driver dies in between: who sends to a node that knows nothing of it would be refused."""
    ask = control.ask

    def slowly(path, command, **what):
        answer = ask(path, command, **what)
        time.sleep(0.5 if command == "readdress" else 0.0)
        return answer

    monkeypatch.setattr(control, "ask", slowly)
    topology = network(2, hosts=2, ports=2, servers=2)
    jobs = workload(star("far", {"u0": 1}, "u1", SIZE, iterations=ITERATIONS))
    with scheduled(topology, jobs, name, sums=False) as bed:
        assert [node.name for node in from_root(bed.plans[1])] == ["ps2", "u1", "u0"]
        live, _ = run_and_cut(bed, jobs, RANK, "failing", lambda: first_port(bed.plans[1]))
    assert live.seen.moves


def test_a_job_shares_the_circuit_of_another_one_where_no_ports_are_free(namespaces, name):
    topology = network(2, hosts=2, ports=2, servers=2)
    jobs = workload(*(star(one, {"u0": 1}, "u1", SIZE, iterations=ITERATIONS) for one in ("first", "second")))
    with scheduled(topology, jobs, name, sums=False) as bed:
        links = {job: {link.id for link in plan.fabric.links} for job, plan in bed.plans.items()}
        live, _ = run_and_cut(bed, jobs, RANK, "failing", lambda: first_port(bed.plans[1]))
    assert links[1] != links[2], "both used one circuit from the beginning"
    assert live.seen.moves[-1].instead in links[2]


def test_a_job_waits_for_ports_that_another_one_has(namespaces, name):
    """With a port of u0 gone, the other one is job 2's until that has ended."""
    topology = network(3, hosts=2, ports=2)
    jobs = workload(far(), far("other", "u0", "u2", 3 * ITERATIONS))
    with scheduled(topology, jobs, name, sums=False) as bed:
        live, said = run_and_cut(bed, jobs, RANK, "failing", lambda: first_port(bed.plans[1]))
    assert "job 1 waits until ports are free" in said
    assert live.seen.moves[-1].at_s >= live.seen.turns[2].end_s


def test_with_a_scheduler_that_is_asked_a_job_that_has_begun_goes_over_too(namespaces, name):
    topology, jobs = network(2, hosts=1, ports=2), workload(far())
    rates = carried(instance(topology, jobs, SLOT_S), jobs)
    with TurnsBed(topology, Online.of(topology, jobs, rates, "turns"), name=name) as bed:
        crossbar = bed.bed.optical_switch("oxc").device.crossbar
        live, said = run_and_cut(bed, jobs, RANK, "failing", lambda: min(crossbar.connections)[0])
    assert f"job 1 goes over to circuit {live.seen.moves[-1].instead}" in said


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_no_port_has_two_circuits_and_nothing_that_failed_is_taken(data):
    topology = network(3, hosts=1, ports=3)
    circuits = all_circuits(topology)
    shared, ports = SharedNetwork(topology, [[one] for one in circuits]), Ports(topology)
    detours, names = Detours(shared, ports), [shared.name(one) for one in circuits]
    failed = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=6, unique=True))
    detours.fail(failed)
    held = set()
    for name in data.draw(st.lists(st.sampled_from(names), max_size=4)):
        held |= {name} if detours.fibres(held).isdisjoint(detours.fibres([name])) else set()
    lacking = set(failed[:1])
    found = detours.find(lacking, held - lacking, set())
    for name, other in found.items():
        assert other not in failed
        assert shared.ends(other) == shared.ends(name)
        assert other in held or detours.fibres([other]).isdisjoint(detours.fibres(held - lacking))
    if not found:
        left = [other for other in detours.left(failed[0]) if other not in held]
        assert not any(detours.fibres([other]).isdisjoint(detours.fibres(held - lacking)) for other in left)


def test_a_plan_that_has_moved_says_so_by_addresses_alone():
    """What ranks and nodes compare with each other has no address in it."""
    topology = network(2, hosts=1, ports=2)
    schedule = turns_of(topology, workload(far()))
    shared = SharedNetwork.with_spares(schedule, topology, all_circuits(topology))
    (plan,), detours = plans_of(schedule).values(), Detours(shared, Ports(topology))
    ((link, own),) = shared.ways(plan).items()
    other = next(name for name in detours.left(own) if name != own)
    moved = detours.readdressed(plan, {link: other})
    assert shared.ways(moved) == {link: other}
    assert moved.digest() == plan.digest()
    assert moved != plan
    assert shared.ways(detours.readdressed(moved, {link: own})) == {link: own}
