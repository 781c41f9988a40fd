"""From timetables to plans: what a timetable counts, a schedule names, and a job keeps what it was given."""

import random

import pytest
from tests.turns.networks import SLOT_S, network, star, three_jobs, timetable_of, turns_of, workload

from wiresum.errors import ScheduleError
from wiresum.plan.schedule import Schedule
from wiresum.plan.shared import SharedNetwork
from wiresum.topology.circuits import fibres
from wiresum.turns.driver import plans_of
from wiresum.turns.journal import Journal
from wiresum.turns.maker import SEGMENT_SLOTS
from wiresum.turns.plans import GOODPUT, LEAST_SENDING, as_schedule
from wiresum.workload.poisson import poisson

SCHEDULERS = ("turns", "window", "fcfs")


def random_jobs(topology, seed, count=8):
    drawn = random.Random(seed)
    units = ["u0", "u1", "u2", "u3"]
    jobs = []
    for number in range(count):
        own = drawn.sample(units, drawn.choice([1, 1, 2]))
        workers = {unit: drawn.choice([1, 2]) for unit in own}
        jobs.append(star(f"job{number}", workers, drawn.choice(units), drawn.randrange(200_000, 4_000_000)))
    return workload(*jobs)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("seed", range(3))
def test_schedules_of_random_jobs_have_what_their_timetables_count(scheduler, seed):
    topology = network(4, hosts=8, ports=4, places=2)
    jobs = random_jobs(topology, seed)
    timetable = timetable_of(topology, jobs, scheduler, seed=seed, step_bps=10e6)
    made = as_schedule(timetable, topology, jobs)
    unit = {fibre.link.id: fibre.unit for fibre in fibres(topology)}
    shared = SharedNetwork(topology, [interval.circuits for interval in made.intervals])
    assert len(made.intervals) == len(timetable.intervals)
    for slot, interval in zip(timetable.intervals, made.intervals, strict=True):
        pairs = [frozenset(unit[link] for link in one.links) for one in interval.circuits]
        for one in slot.circuits:
            assert pairs.count(frozenset(one.between)) == one.circuits
        assert len(pairs) == sum(one.circuits for one in slot.circuits)
        assert {str(rate.job) for rate in slot.rates} <= set(interval.plans)
        lit = {shared.name(circuit) for circuit in interval.circuits}
        ordinary = {link.id for link in topology.links} - set(unit)
        for job, plan in interval.plans.items():
            assert {link.id for link in plan.fabric.links} <= lit | ordinary, f"job {job} has a dark link"
        _require_own_segments(interval)
    assert plans_of(made).keys() == dict(enumerate(jobs.jobs, 1)).keys()


def _require_own_segments(interval):
    taken = set()
    for plan in interval.plans.values():
        for stream in plan.streams:
            for place in stream.places:
                slots = {(place.node, place.base + slot) for slot in range(place.slots or 0)}
                assert not slots & taken, "two jobs have a slot at once"
                taken |= slots


def test_set_ups_are_those_of_the_timetable():
    topology, jobs = network(), three_jobs()
    timetable = timetable_of(topology, jobs)
    lit, setups = set(), 0
    for interval in as_schedule(timetable, topology, jobs).intervals:
        now = {frozenset(circuit.links) for circuit in interval.circuits}
        setups += len(now - lit)
        lit = now
    assert setups == timetable.cost.setups


def test_a_schedule_survives_its_file(tmp_path):
    made = turns_of(network(), three_jobs())
    file, secrets = tmp_path / "schedule.json", tmp_path / "schedule.json.secret"
    made.write(file)
    assert Schedule.read(file) == made
    assert not any(plan.job.secret in file.read_text() for plan in plans_of(made).values())
    assert secrets.stat().st_mode & 0o777 == 0o600
    secrets.unlink()
    assert Schedule.read(file) == made.with_secrets(None)
    file.write_text(made.model_dump_json(exclude_none=True))
    assert Schedule.read(file) == made, "a schedule with its secrets inside is read, too"


def test_a_journal_is_of_one_schedule_and_its_secrets(tmp_path):
    made, again = turns_of(network(), three_jobs()), turns_of(network(), three_jobs())
    journal = Journal(tmp_path / "progress.json", made)
    assert journal.read() is None
    journal.write(2, {1: "done", 3: "dark"})
    found = Journal(tmp_path / "progress.json", made).read()
    assert (found.interval, found.ended) == (2, {"1": "done", "3": "dark"})
    assert Journal(tmp_path / "progress.json", again).read() is None, "ranks do not have these secrets"
    journal.end()
    assert journal.read() is None


def test_places_in_turns_have_the_same_segment():
    topology = network(2, hosts=4, places=1)
    jobs = workload(*(star(f"job{number}", {"u0": 4}, "u0", 2_000_000) for number in range(3)))
    made = turns_of(topology, jobs)
    bases = {place.base for plan in plans_of(made).values() for place in plan.streams[1].places if place.slots}
    memory = {memory.slots for plan in plans_of(made).values() for memory in plan.fabric.memory}
    assert memory <= {SEGMENT_SLOTS}
    assert len(bases) <= 1


def test_workers_of_two_jobs_at_one_host_have_addresses_of_their_own():
    made = turns_of(
        network(2, hosts=1, ports=1), workload(*(star(f"j{n}", {"u0": 1}, "u1", 100_000) for n in range(3)))
    )
    ends = [end for plan in plans_of(made).values() for link in plan.fabric.links for end in link.ends]
    workers = [end.address for end in ends if end.site[0] == "worker"]
    assert len(set(workers)) == len(workers) == 3


def test_what_cannot_run_is_named():
    topology = network()
    with pytest.raises(ScheduleError, match="job crowded: 3 workers at u0, which has 2 hosts"):
        turns_of(topology, workload(star("crowded", {"u0": 3}, "u0", 1000)))
    jobs = three_jobs()
    with pytest.raises(ScheduleError, match="job 4 is not in the timetable"):
        as_schedule(
            timetable_of(topology, jobs),
            topology,
            workload(*(job.model_dump(exclude_none=True) for job in jobs.jobs), star("more", {"u0": 1}, "u0", 1)),
        )
    coflow = {"name": "sort", "synchrony": "coflow", "workers": {"u0": 1}, "sinks": {"u1": 1000}}
    with pytest.raises(ScheduleError, match="job 1 is a coflow"):
        turns_of(topology, workload(coflow))


def test_a_paper_workload_of_the_makers_converts():
    topology = network(4, hosts=4, ports=3, places=2)
    jobs = poisson(topology, jobs=12, per_second=1.0, workers=[2, 4], size_bytes=(127_500, 660_000), seed=1)
    made = turns_of(topology, jobs)
    assert made.intervals[-1].until_s >= jobs.jobs[-1].arrival_s + SLOT_S


@pytest.mark.parametrize("compute_s", [0.0, 0.02, 0.05, 10.0])
def test_a_job_that_computes_sends_faster_so_that_it_has_its_rate_on_average(compute_s):
    """An iteration takes as long as its timetable has it, if links allow it; else its gate is ten times as wide."""
    topology, size = network(), 200_000
    jobs = workload({**star("local", {"u0": 2}, "u0", size, iterations=4), "compute_s": compute_s})
    timetable = timetable_of(topology, jobs)
    interval = as_schedule(timetable, topology, jobs).intervals[0]
    mean_bps = timetable.intervals[0].rates[0].rate_bps
    seconds = 8 * size / (GOODPUT * interval.rates_bps["1"]) + compute_s
    promised_s = 8 * size / mean_bps
    if compute_s < (1 - LEAST_SENDING) * promised_s:
        assert seconds == pytest.approx(promised_s)
    else:
        assert interval.rates_bps["1"] == pytest.approx(mean_bps / LEAST_SENDING / GOODPUT)
