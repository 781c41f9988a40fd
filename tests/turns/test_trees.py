"""Jobs that switches of several units sum together, and schedules without slots, live; sums are exact."""

import sys

import pytest
from tests.turns.networks import assert_carried, network, star, timetable_of, tree_jobs, workload

from wiresum.errors import ScheduleError
from wiresum.turns.live import TurnsBed, run_jobs, run_ranks
from wiresum.turns.plans import as_schedule
from wiresum.turns.report import Promise, compare

TRAINING = [sys.executable, "-m", "wiresum.demo.job"]


def four_units():
    return network(4, ports=2, places=2)


@pytest.mark.parametrize(
    ("scheduler", "trees", "engine"),
    [
        ("turns", True, "udp"),
        pytest.param("turns", True, "xdp", marks=pytest.mark.needs("xdp")),
        ("events", False, "udp"),
        ("events", True, "udp"),
    ],
)
def test_jobs_have_the_set_ups_and_bytes_that_were_promised(namespaces, name, scheduler, trees, engine):
    topology, jobs = four_units(), tree_jobs()
    timetable = timetable_of(topology, jobs, scheduler, trees=trees)
    schedule = as_schedule(timetable, topology, jobs, engine)
    with TurnsBed(topology, schedule, "calient-tl1", name) as bed:
        live, sums = run_ranks(bed, jobs)
        switch = bed.bed.optical_switch("oxc")
        dark = sum(switch.light.count(port).dark for port in switch.device.crossbar.sides)
        assert all(not bed.nodes.served(node) for node in bed.nodes.sockets)
    found = compare(Promise(topology, jobs, timetable, schedule), live.seen, live.traffic)
    assert {job.by for job in found.jobs} == {"switch"} or not trees
    assert {job.end for job in found.jobs} == {"done"}
    assert found.setups[0] == found.setups[1] > 1
    assert dark == 0, "announced darkness has lost something"
    assert_carried(found.fibres, sums)


def test_unmodified_trainings_are_summed_along_a_tree_without_slots(namespaces, name):
    topology = four_units()
    jobs = workload(
        star("three", {"u0": 1, "u1": 1, "u2": 1}, "u1", 400_000, iterations=2),
        star("two", {"u2": 1, "u3": 1}, "u3", 400_000),
    )
    timetable = timetable_of(topology, jobs, "events", trees=True)
    lines = []
    with TurnsBed(topology, as_schedule(timetable, topology, jobs), "polatis-rest", name) as bed:
        live = run_jobs(bed, jobs, TRAINING, lambda *line: lines.append(line))
    assert live.exit_code == 0, "\n".join(map(str, lines))
    assert {cost.by for cost in timetable.cost.jobs} == {"switch"}


def test_a_tree_sends_one_gradient_over_each_circuit_where_a_server_gets_one_for_each_worker():
    topology, jobs = four_units(), workload(star("three", {"u0": 2, "u1": 2, "u2": 2}, "u1", 600_000))
    legs = {}
    for trees in (False, True):
        schedule = as_schedule(timetable_of(topology, jobs, trees=trees), topology, jobs)
        plan = schedule.intervals[0].plans["1"]
        legs[trees] = sum(link.startswith("oxc.") for leg in plan.streams[1].legs for link in leg.links)
    assert legs == {False: 4, True: 2}


def test_a_job_that_switches_cannot_sum_together_is_named():
    topology = network(4, ports=2, places=2)
    timetable = timetable_of(topology, tree_jobs(), trees=True)
    nodes = [node.model_copy(update={"places": 0}) if node.name == "u2" else node for node in topology.nodes]
    without = topology.model_copy(update={"nodes": nodes})
    with pytest.raises(ScheduleError, match="job three: the switches of its units cannot sum it together"):
        as_schedule(timetable, without, tree_jobs())
