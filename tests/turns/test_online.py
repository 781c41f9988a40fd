"""Turns that a scheduler decides slot by slot, live; and the ports that it is given."""

import random
import sys

import pytest
from tests.turns.networks import SLOT_S, assert_carried, network, star, tree_jobs, workload

from wiresum.errors import ScheduleError
from wiresum.schedule import schedule
from wiresum.topology.circuits import fibres
from wiresum.topology.optical import Circuit
from wiresum.turns.live import RANK, TurnsBed, run_jobs, run_ranks
from wiresum.turns.online import Online
from wiresum.turns.plans import carried, step_of
from wiresum.turns.ports import MOST_FAILURES, Ports, all_circuits
from wiresum.turns.report import Promise, compare
from wiresum.workload.instance import instance

TRAINING = [sys.executable, "-m", "wiresum.demo.job"]


def four_jobs(size=800_000):
    """As three_jobs of networks, but two arrive late; the last one wants the port that others use."""
    return workload(
        star("local", {"u0": 2}, "u0", size),
        star("first", {"u0": 1, "u1": 1}, "u1", size),
        star("second", {"u1": 1, "u2": 1}, "u2", size, arrival_s=0.3),
        star("late", {"u2": 2}, "u2", size, arrival_s=0.9),
    )


def asked(topology, jobs, scheduler="turns", engine="udp", **rules):
    rates = carried(instance(topology, jobs, SLOT_S, **rules), jobs)
    promised = schedule(rates, scheduler, online=True, **step_of(rates))
    return Online.of(topology, jobs, rates, scheduler, engine), promised


def run(bed, jobs, command=RANK):
    lines = []
    live = run_jobs(bed, jobs, command, lambda *line: lines.append(line), print)
    assert live.exit_code == 0, "\n".join(map(str, lines))
    return live


@pytest.mark.parametrize("scheduler", ["turns", "window", "fcfs"])
def test_jobs_that_nobody_knew_before_have_their_turns(namespaces, name, scheduler):
    topology, jobs = network(), four_jobs()
    online, timetable = asked(topology, jobs, scheduler)
    with TurnsBed(topology, online, "polatis-rest", name) as bed:
        live, sums = run_ranks(bed, jobs)
        found = compare(Promise(topology, jobs, timetable, live.schedule), live.seen, live.traffic)
        assert all(not bed.nodes.served(node) for node in bed.nodes.sockets)
        switch = bed.bed.optical_switch("oxc")
        assert sum(switch.light.count(port).dark for port in switch.device.crossbar.sides) == 0
    assert {job.end for job in found.jobs} == {"done"}
    assert all(job.seen_s[0] >= job.arrival_s for job in found.jobs), "a job has begun before it was there"
    assert_carried(found.fibres, sums)
    times = {job.job: job.seen_s for job in found.jobs}
    (one_begin, one_end), (other_begin, other_end) = times["first"], times["second"]
    assert one_end <= other_begin or other_end <= one_begin, "two jobs had the only port of u1 at once"


@pytest.mark.parametrize("engine", ["udp", pytest.param("xdp", marks=pytest.mark.needs("xdp"))])
def test_a_training_waits_for_its_plan(namespaces, name, engine):
    topology = network()
    jobs = workload(
        star("local", {"u0": 2}, "u0", 400_000, iterations=2), star("far", {"u1": 1, "u2": 1}, "u2", 400_000)
    )
    online, _ = asked(topology, jobs, engine=engine)
    with TurnsBed(topology, online, name=name) as bed:
        run(bed, jobs, TRAINING)


def test_a_job_that_has_not_begun_takes_another_port_where_one_is_dark(namespaces, name):
    topology, jobs = network(2, hosts=1, ports=3), workload(star("far", {"u0": 1, "u1": 1}, "u1", 400_000))
    online, _ = asked(topology, jobs)
    with TurnsBed(topology, online, name=name) as bed:
        crossbar = bed.bed.optical_switch("oxc").device.crossbar
        crossbar.faults.lying.add("1")
        live = run(bed, jobs)
    assert live.seen.turns[1].end == "done"
    assert any(step.failed for step in live.seen.steps), "the port that is dark was not tried"


def test_a_job_without_any_port_is_given_up_and_others_go_on(namespaces, name):
    topology = network(2, hosts=2)
    jobs = workload(star("local", {"u0": 2}, "u0", 400_000), star("far", {"u0": 1, "u1": 1}, "u1", 400_000))
    online, _ = asked(topology, jobs)
    lines = []
    with TurnsBed(topology, online, name=name) as bed:
        bed.bed.optical_switch("oxc").device.crossbar.faults.failing["1"] = "dust"
        live = run_jobs(bed, jobs, RANK, lambda *line: lines.append(line))
    assert {job: turn.end for job, turn in live.seen.turns.items()} == {1: "done", 2: "dark"}
    assert live.exit_codes[1] == [0, 0]
    assert all(code != 0 for code in live.exit_codes[2])
    assert "wiresum.errors.NoTurnError" in "\n".join(line for *_, line in lines)


def test_a_job_has_the_same_server_whenever_its_plan_is_made():
    """Daemons are started where the first plans say."""
    topology = network(2, hosts=2, servers=3)
    jobs = workload(*(star(f"job{number}", {"u0": 2}, "u1", 400_000) for number in range(4)))
    online, _ = asked(topology, jobs)
    first, again = ([[node.name for node in plan.nodes] for plan in online.ways()] for _ in range(2))
    assert first == again
    assert len({name for names in first for name in names if name.startswith("ps")}) == 3


def test_a_scheduler_may_have_jobs_summed_along_trees(namespaces, name):
    """Two jobs meet at u3, and each has one segment at all of its switches."""
    topology, jobs = network(4, ports=2, places=2), tree_jobs(1_600_000)
    online, timetable = asked(topology, jobs, trees=True)
    with TurnsBed(topology, online, name=name) as bed:
        live, sums = run_ranks(bed, jobs)
        found = compare(Promise(topology, jobs, timetable, live.schedule), live.seen, live.traffic)
    assert {job.end for job in found.jobs} == {"done"}
    plans = {job: plan for interval in live.schedule.intervals for job, plan in interval.plans.items()}
    assert any(len(plan.streams[1].places) > 1 for plan in plans.values()), "no job was summed along a tree"
    assert_carried(found.fibres, sums)


def test_a_scheduler_without_slots_is_not_asked_at_each():
    with pytest.raises(ScheduleError, match="`events` knows no slots, and --online asks at each; leave --online out"):
        asked(network(), four_jobs(), "events", slots=False)


def test_a_coflow_has_no_turn():
    topology = network()
    coflow = workload({"name": "sort", "synchrony": "coflow", "workers": {"u0": 1}, "sinks": {"u1": 1000}})
    with pytest.raises(ScheduleError, match="job sort is a coflow"):
        asked(topology, coflow)


@pytest.mark.parametrize("seed", range(20))
def test_ports_are_used_once_held_circuits_stay_and_failed_ones_do_not_come_back(seed):
    drawn = random.Random(seed)
    topology = network(4, ports=3)
    ports, unit = Ports(topology), {fibre.link.id: fibre.unit for fibre in fibres(topology)}
    every = all_circuits(topology)
    assert len(every) == 6 * 3 * 3
    lit, failed = [], set()
    for _ in range(20):
        held = drawn.sample(lit, len(lit) // 2)
        wanted = {frozenset(drawn.sample(["u0", "u1", "u2", "u3"], 2)): drawn.randint(0, 3) for _ in range(4)}
        chosen = ports.choose(wanted, held, lit)
        taken = [link for circuit in chosen for link in circuit.links]
        assert len(taken) == len(set(taken))
        assert all(circuit in chosen for circuit in held)
        new = [circuit for circuit in chosen if circuit not in lit]
        assert not failed & {frozenset(circuit.links) for circuit in new}
        pairs = [frozenset(unit[link] for link in circuit.links) for circuit in chosen]
        there = [frozenset(unit[link] for link in circuit.links) for circuit in held]
        assert all(pairs.count(pair) <= max(wanted.get(pair, 0), there.count(pair)) for pair in set(pairs))
        lit = chosen
        if drawn.random() < 0.3 and lit:
            broken = drawn.choice(lit)
            lit = [circuit for circuit in lit if circuit != broken]
            ports.fail(broken.links)
            failed.add(frozenset(broken.links))


def test_a_port_that_fails_with_two_others_is_broken():
    topology = network(3, ports=2)
    ports = Ports(topology)
    mine = next(fibre.link.id for fibre in fibres(topology) if fibre.unit == "u0")
    others = [fibre.link.id for fibre in fibres(topology) if fibre.unit != "u0"]
    for other in others[:MOST_FAILURES]:
        assert ports.working() == {"u0": 2, "u1": 2, "u2": 2}
        ports.fail([mine, other])
    assert ports.working() == {"u0": 1, "u1": 2, "u2": 2}
    made = ports.choose({frozenset({"u0", "u1"}): 2}, [], [])
    assert len(made) == 1
    assert mine not in made[0].links
    assert isinstance(made[0], Circuit)
