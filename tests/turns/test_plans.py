"""From timetables to plans: what a timetable counts, a schedule names, and a job keeps what it was given."""

import random
import re
from collections import Counter, defaultdict

import pytest
from tests.turns.networks import RATE_BPS, SLOT_S, network, star, three_jobs, timetable_of, turns_of, workload
from typer.testing import CliRunner

from wiresum.cli.main import app
from wiresum.errors import ScheduleError
from wiresum.plan.members import NodeChild
from wiresum.plan.schedule import Schedule
from wiresum.plan.shared import SharedNetwork
from wiresum.topology.circuits import fibres
from wiresum.turns.driver import plans_of
from wiresum.turns.journal import Journal
from wiresum.turns.maker import SEGMENT_SLOTS
from wiresum.turns.plans import GOODPUT, LEAST_SENDING, as_schedule
from wiresum.workload.poisson import poisson

SCHEDULERS = ("turns", "window", "fcfs")
KINDS = [*((name, False) for name in SCHEDULERS), ("turns", True), ("events", False), ("events", True)]
"""Schedulers, and whether switches of several units may sum a job together; `events` has no slots."""


def random_jobs(topology, seed, count=8):
    drawn = random.Random(seed)
    units = ["u0", "u1", "u2", "u3"]
    jobs = []
    for number in range(count):
        own = drawn.sample(units, drawn.choice([1, 1, 2]))
        workers = {unit: drawn.choice([1, 2]) for unit in own}
        jobs.append(star(f"job{number}", workers, drawn.choice(units), drawn.randrange(200_000, 4_000_000)))
    return workload(*jobs)


@pytest.mark.parametrize(("scheduler", "trees"), KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_schedules_of_random_jobs_have_what_their_timetables_count(scheduler, trees, seed):
    topology = network(4, hosts=8, ports=4, places=2)
    jobs = random_jobs(topology, seed)
    timetable = timetable_of(topology, jobs, scheduler, trees=trees, seed=seed, step_bps=10e6)
    made = as_schedule(timetable, topology, jobs)
    unit = {fibre.link.id: fibre.unit for fibre in fibres(topology)}
    shared = SharedNetwork.of(made, topology)
    assert len(made.intervals) == len(timetable.intervals)
    for slot, interval in zip(timetable.intervals, made.intervals, strict=True):
        pairs = [frozenset(unit[link] for link in one.links) for one in interval.circuits]
        for one in slot.circuits:
            assert pairs.count(frozenset(one.between)) == one.circuits
        assert len(pairs) == sum(one.circuits for one in slot.circuits)
        assert {str(rate.job) for rate in slot.rates} <= set(interval.plans)
        assert all((rate.by == "switch") == _sums_at_switches(interval.plans[str(rate.job)]) for rate in slot.rates)
        lit = {shared.name(circuit) for circuit in interval.circuits}
        ordinary = {link.id for link in topology.links} - set(unit)
        for job, plan in interval.plans.items():
            assert {link.id for link in plan.fabric.links} <= lit | ordinary, f"job {job} has a dark link"
        _require_own_segments(interval)
    assert plans_of(made).keys() == dict(enumerate(jobs.jobs, 1)).keys()


def _sums_at_switches(plan):
    """Whether switches sum a plan, each unit's own workers and one sum of each unit below."""
    values, units = plan.streams[1], {node.id for node in plan.nodes if node.name.startswith("u")}
    if not values.places[0].slots:
        return False
    senders = [leg.child.node for leg in values.legs if isinstance(leg.child, NodeChild)]
    assert {place.node for place in values.places} == units
    assert len(senders) == len(set(senders)) == len(units) - 1, "each unit but the root sends one sum"
    return True


def _require_own_segments(interval):
    taken = set()
    for plan in interval.plans.values():
        for stream in plan.streams:
            assert len({place.base for place in stream.places}) == 1, "a packet names its slot once, for all switches"
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


def test_a_schedule_is_explained_with_whom_each_job_waits_for(tmp_path):
    """Jobs `first` and `second` need the only port of u1."""
    turns_of(network(), three_jobs()).write(tmp_path / "schedule.json")
    said = CliRunner().invoke(app, ["explain", str(tmp_path / "schedule.json")]).output
    (waits,) = [line for line in said.splitlines() if "has waited" in line]
    assert re.search(r"job 3 begins .*second, summed by a server.* it has waited for job 2$", waits)
    assert said.count("is set up") == 2


def test_a_journal_is_of_one_schedule_and_its_secrets(tmp_path):
    made, again = turns_of(network(), three_jobs()), turns_of(network(), three_jobs())
    journal = Journal(tmp_path / "progress.json", made)
    assert journal.read() is None
    journal.write(1, {1: "done", 3: "dark"}, [("oxc", "1", "2")])
    found = Journal(tmp_path / "progress.json", made).read()
    assert (found.interval, found.ended) == (1, {"1": "done", "3": "dark"})
    assert Journal(tmp_path / "progress.json", again).read() is None, "ranks do not have these secrets"
    assert Journal(tmp_path / "progress.json", again).lit() == [("oxc", "1", "2")], "light is lit for any schedule"
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
            workload(
                *(job.model_dump(exclude_none=True) for job in jobs.jobs),
                star("more", {"u0": 1}, "u0", 1, arrival_s=SLOT_S),
            ),
        )
    coflow = {"name": "sort", "synchrony": "coflow", "workers": {"u0": 1}, "sinks": {"u1": 1000}}
    with pytest.raises(ScheduleError, match="job 1 is a coflow"):
        turns_of(topology, workload(coflow))


def test_a_paper_workload_of_the_makers_converts():
    topology = network(4, hosts=4, ports=3, places=2)
    jobs = poisson(topology, jobs=12, per_second=1.0, workers=[2, 4], size_bytes=(127_500, 660_000), seed=1)
    made = turns_of(topology, jobs)
    assert made.intervals[-1].until_s >= jobs.jobs[-1].arrival_s + SLOT_S


@pytest.mark.parametrize(("scheduler", "trees"), KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_gates_let_no_more_onto_a_link_than_it_carries_while_there_is_light(scheduler, trees, seed):
    topology = network(4, hosts=8, ports=4, places=2)
    timetable = timetable_of(topology, random_jobs(topology, seed), scheduler, trees=trees, seed=seed)
    for interval in as_schedule(timetable, topology, random_jobs(topology, seed)).intervals:
        load = Counter()
        for job, rate_bps in interval.rates_bps.items():
            values = interval.plans[job].streams[1]
            load.update({link: len(ways) * rate_bps for link, ways in _ways(values).items()})
        assert all(used <= RATE_BPS * (1 + 1e-6) for used in load.values()), load


def _ways(stream):
    """Links of a stream, and the legs that go over each."""
    found = defaultdict(list)
    for leg in stream.legs:
        for link in leg.links:
            found[link].append(leg)
    return found


@pytest.mark.parametrize("compute_s", [0.02, 0.3])
@pytest.mark.parametrize("workers", [{"u0": 2}, {"u0": 1, "u1": 1}])
def test_turns_of_a_job_that_computes_have_time_for_it(compute_s, workers):
    topology, size, iterations = network(), 200_000, 6
    jobs = workload({**star("busy", workers, "u0", size, iterations=iterations), "compute_s": compute_s})
    (cost,) = timetable_of(topology, jobs).cost.jobs
    assert cost.end_s - cost.start_s >= iterations * (compute_s + 8 * size / RATE_BPS)


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
