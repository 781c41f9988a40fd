"""Jobs in turns over namespaces and an emulated circuit switch, by the protocols of real ones; sums are exact."""

import sys
import threading
import time
from contextlib import contextmanager

import pytest
from tests.turns.networks import DARK_S, assert_carried, network, star, three_jobs, timetable_of, workload

from wiresum.errors import ScheduleError
from wiresum.turns.live import RANK, TurnsBed, run_jobs, run_ranks
from wiresum.turns.plans import as_schedule
from wiresum.turns.report import Promise, compare

TRAINING = [sys.executable, "-m", "wiresum.demo.job"]
PROTOCOLS = ("polatis-rest", "calient-tl1", "sonic-tcp", "polatis-scpi", "sonic-gnmi")


@contextmanager
def turns(topology, jobs, name, protocol="emulated", scheduler="turns", **more):
    timetable = timetable_of(topology, jobs, scheduler)
    schedule = as_schedule(timetable, topology, jobs, **more)
    with TurnsBed(topology, schedule, protocol, name) as bed:
        yield bed, Promise(topology, jobs, timetable, schedule)


def run(bed, jobs, command=RANK):
    lines = []
    live = run_jobs(bed, jobs, command, lambda *line: lines.append(line))
    assert live.exit_code == 0, "\n".join(map(str, lines))
    return live


def cut_light(bed, job, fault):
    """Once a job has some results, takes the light of its circuits for good."""
    while not bed.gates.results([job])[job]:
        time.sleep(0.02)
    crossbar = bed.bed.optical_switch("oxc").device.crossbar
    if fault == "failing":
        crossbar.faults.failing["1"] = "dust"
    else:
        crossbar.faults.lying.add("1")
    crossbar.order(time.monotonic(), crossbar.connections, crossbar.connections)


def run_until_dark(name, fault, command):
    """Runs a job whose light goes for good once it has begun; what was seen, and what was said.

    Args:
        name: of the testbed.
        fault: what the device does: `failing` says so, `lying` calls its circuits lit.
        command: of the ranks.
    """
    jobs = workload(star("far", {"u0": 1, "u1": 1}, "u1", 1_000_000, iterations=12))
    lines = []
    with turns(network(2, hosts=1), jobs, name) as (bed, _):
        cutter = threading.Thread(target=cut_light, args=(bed, 1, fault))
        cutter.start()
        live = run_jobs(bed, jobs, command, lambda *line: lines.append(line))
        cutter.join()
        assert all(not bed.nodes.served(node) for node in bed.nodes.sockets)
    return live, "\n".join(line for *_, line in lines)


@pytest.mark.parametrize(
    ("protocol", "engine"),
    [
        *((protocol, "udp") for protocol in PROTOCOLS),
        pytest.param("polatis-rest", "xdp", marks=pytest.mark.needs("xdp")),
    ],
)
def test_jobs_run_in_turns_by_the_protocol_of_a_device(namespaces, name, protocol, engine):
    """The only port of u1 leads to the neighbour of job `first`, and before or after it to that of job `second`."""
    topology, jobs = network(), three_jobs()
    with turns(topology, jobs, name, protocol, engine=engine) as (bed, promise):
        live, sums = run_ranks(bed, jobs)
        found = compare(promise, live.seen, live.traffic)
        switch = bed.bed.optical_switch("oxc")
        dark = sum(switch.light.count(port).dark for port in switch.device.crossbar.sides)
        assert all(bed.nodes.served(node) == set() for node in bed.bed.network.namespaces if node.startswith("u"))
    assert found.setups[0] == found.setups[1] > 1
    assert dark == 0, "announced darkness has lost something"
    assert_carried(found.fibres, sums)
    assert {job.end for job in found.jobs} == {"done"}
    begins = {job.job: job.seen_s for job in found.jobs}
    (one_begin, one_end), (other_begin, other_end) = begins["first"], begins["second"]
    assert one_end <= other_begin or other_end <= one_begin, "two jobs had the only port of u1 at once"


def test_unmodified_trainings_run_in_turns(namespaces, name):
    topology = network()
    jobs = workload(
        star("local", {"u0": 2}, "u0", 400_000, iterations=2), star("far", {"u1": 1, "u2": 1}, "u2", 400_000)
    )
    with turns(topology, jobs, name, "polatis-rest") as (bed, _):
        run(bed, jobs, TRAINING)


def test_a_job_that_needs_longer_than_its_turn_delays_those_behind_it(namespaces, name):
    topology = network(2, hosts=1)
    slow = star("slow", {"u0": 1}, "u1", 100_000, iterations=4)
    others = star("next", {"u1": 1}, "u0", 100_000), star("last", {"u0": 1}, "u1", 1_500_000)
    with turns(topology, workload(slow, *others), name) as (bed, promise):
        live = run(bed, workload({**slow, "compute_s": 0.4}, *others))
        found = {job.job: job for job in compare(promise, live.seen, live.traffic).jobs}
    assert found["slow"].seen_s[1] > found["slow"].promised_s[1]
    assert {job.end for job in found.values()} == {"done"}


def test_a_rank_that_is_killed_ends_its_job_alone(namespaces, name):
    topology, jobs = network(), three_jobs()
    with turns(topology, jobs, name) as (bed, _):
        bed_spawn, victims = bed.spawn, []

        def spawn(job, rank, command, environment=None):
            child = bed_spawn(job, rank, command, environment)
            victims.extend([child] if job == 1 and rank == 0 else [])
            return child

        bed.spawn = spawn
        killer = threading.Thread(target=lambda: (bed.gates.await_ranks({1: 2}, 60), victims[0].kill()))
        killer.start()
        live = run_jobs(bed, jobs, RANK, lambda *line: None)
        killer.join()
    assert live.exit_codes[1][0] == 128 + 9
    assert live.exit_codes[1][1] != 0
    assert live.exit_codes[2] == live.exit_codes[3] == [0, 0]
    assert live.seen.turns[1].end == "lost"


def test_a_job_whose_command_fails_is_named_before_anyone_waits(namespaces, name):
    topology, jobs = network(), three_jobs()
    with (
        turns(topology, jobs, name) as (bed, _),
        pytest.raises(ScheduleError, match=r"rank 0 of job 1.*has ended, or has nothing to send"),
    ):
        run_jobs(bed, jobs, ["false"], lambda *line: None)


def test_darkness_in_a_turn_is_announced_and_pauses_the_job(namespaces, name):
    """The circuit of a running job goes and comes back: nothing meets darkness, and nothing is sent again."""
    topology = network(2, hosts=1)
    jobs = workload(star("far", {"u0": 1}, "u1", 2_000_000))
    timetable = timetable_of(topology, jobs, sums=False)
    schedule = as_schedule(timetable, topology, jobs)
    first = schedule.intervals[0]
    times = [(0.0, 0.1, first.circuits), (0.1, 0.3, []), (0.3, None, first.circuits)]
    parts = [first.model_copy(update={"from_s": a, "until_s": b, "circuits": lit}) for a, b, lit in times]
    paused = schedule.model_copy(update={"intervals": parts})
    with TurnsBed(topology, paused, name=name) as bed:
        lines = []
        live = run_jobs(bed, jobs, RANK, lambda *line: lines.append(line))
        switch = bed.bed.optical_switch("oxc")
        dark = sum(switch.light.count(port).dark for port in switch.device.crossbar.sides)
    assert live.exit_code == 0, "\n".join(map(str, lines))
    assert dark == 0
    assert [step.paused for step in live.seen.steps] == [[], [1], [1]]
    assert live.seen.turns[1].end_s > 0.3 + DARK_S


def test_a_circuit_that_fails_to_come_up_is_ordered_again(namespaces, name):
    topology, jobs = network(), three_jobs()
    with turns(topology, jobs, name) as (bed, _):
        crossbar = bed.bed.optical_switch("oxc").device.crossbar
        crossbar.faults.failing["1"] = crossbar.faults.failing["3"] = "dust"
        follow = crossbar.on_change
        dark = []

        def mend(ports):
            """It is clean when it has been taken down."""
            dark.extend(beam for beam in crossbar.beams.values() if beam.lit_s == float("inf"))
            if dark and not crossbar.beams:
                crossbar.faults.failing.clear()
            follow(ports)

        crossbar.on_change = mend
        live = run(bed, jobs)
    assert dark, "nothing has failed"
    assert {turn.end for turn in live.seen.turns.values()} == {"done"}


@pytest.mark.parametrize("forgets", [False, True])
def test_a_device_that_dies_and_comes_back_costs_time_and_no_job(namespaces, name, forgets):
    """It is away while circuits are ordered, or has lost its circuits beneath a job that sends."""
    topology, jobs = network(), three_jobs(1_500_000)
    with turns(topology, jobs, name, "calient-tl1") as (bed, _):
        switch = bed.bed.optical_switch("oxc")

        def kill():
            bed.gates.await_ranks({job: len(plan.workers) for job, plan in bed.plans.items()}, 60)
            while not switch.device.crossbar.beams:
                time.sleep(0.01)
            switch.restart(1.0, forgets=forgets)

        killer = threading.Thread(target=kill)
        killer.start()
        live = run(bed, jobs)
        killer.join()
        assert all(not bed.nodes.served(node) for node in bed.nodes.sockets)
    assert {turn.end for turn in live.seen.turns.values()} == {"done"}


def test_a_training_whose_circuit_never_gets_light_goes_on_without_the_network(namespaces, name, monkeypatch):
    monkeypatch.setenv("WIRESUM_FALLBACK", "gloo")
    topology = network(2, hosts=1)
    jobs = workload(star("far", {"u0": 1, "u1": 1}, "u1", 400_000, iterations=2))
    lines = []
    with turns(topology, jobs, name) as (bed, _):
        bed.bed.optical_switch("oxc").device.crossbar.faults.failing["1"] = "dust"
        live = run_jobs(bed, jobs, TRAINING, lambda *line: lines.append(line))
    said = "\n".join(line for *_, line in lines)
    assert live.exit_codes[1] == [0, 0], said
    assert live.seen.turns[1].end == "dark"
    assert said.count("this job sums without the network from now on") == 2, "each rank says so once"
    assert "dust" in said


def test_a_training_that_has_begun_goes_over_where_its_light_goes_for_good(namespaces, name, monkeypatch):
    """The device says `lit` all the time; gradients are right before and after."""
    monkeypatch.setenv("WIRESUM_FALLBACK", "gloo")
    live, said = run_until_dark(name, "lying", TRAINING)
    assert live.exit_codes[1] == [0, 0], said
    assert live.seen.turns[1].end == "dark"
    assert said.count("this job sums without the network from now on") == 2, "each rank says so once"
    assert "circuit oxc.1-2: " in said
    assert "nothing gets through" in said


def test_a_job_that_has_begun_and_cannot_go_over_gets_an_error_that_says_what_to_do(namespaces, name):
    live, said = run_until_dark(name, "failing", RANK)
    assert all(code != 0 for code in live.exit_codes[1]), said
    assert "no light: circuit oxc.1-2: port 1: dust" in said
    assert "check its fibre, or use another port; with WIRESUM_FALLBACK=gloo" in said


@pytest.mark.parametrize("fault", ["failing", "lying", "stuck"])
def test_a_schedule_goes_on_without_circuits_that_never_get_light(namespaces, name, fault):
    """A job that needs none is done; ranks of the others get errors, and nothing is left astray."""
    topology, jobs = network(), three_jobs(400_000)
    lines = []
    with turns(topology, jobs, name) as (bed, _):
        crossbar = bed.bed.optical_switch("oxc").device.crossbar
        if fault == "failing":
            crossbar.faults.failing.update(dict.fromkeys(crossbar.sides, "dust"))
        else:
            getattr(crossbar.faults, fault).update(crossbar.sides)
        live = run_jobs(bed, jobs, RANK, lambda *line: lines.append(line))
        assert not crossbar.connections, "a circuit without light was left"
        assert all(not bed.nodes.served(node) for node in bed.nodes.sockets)
    assert {job: turn.end for job, turn in live.seen.turns.items()} == {1: "done", 2: "dark", 3: "dark"}
    assert live.exit_codes[1] == [0, 0]
    assert all(code != 0 for job in (2, 3) for code in live.exit_codes[job])
    said = "\n".join(line for *_, line in lines)
    assert "wrong sum" not in said
    assert "wiresum.errors." in said
    reason = {"failing": "dust", "lying": "nothing gets through", "stuck": "does not do as ordered"}[fault]
    assert all(reason in why for step in live.seen.steps for why in step.failed.values())
