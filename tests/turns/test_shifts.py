"""Time shifts: jobs that share a circuit send while others compute, and no link ever has more than it carries."""

import random
from dataclasses import replace

import numpy as np
import pytest
from tests.turns.networks import RATE_BPS, network, star, timetable_of, workload

from wiresum.turns.live import TurnsBed, run_ranks
from wiresum.turns.plans import as_schedule, assigned
from wiresum.turns.sharing import loads_bps
from wiresum.turns.shifts import GUARD, Sender, excess, interleave, unshifted

LINK = "circuit"
CAPACITY_BPS = 10e6


def sender(sending_s, compute_s, iterations=10, *, begin_s=0.0, share=1.0, uses=1):
    """A job that sends for so long at a share of the link, and then computes."""
    rate_bps = share * CAPACITY_BPS / uses
    rates = [(begin_s, begin_s + iterations * (sending_s + compute_s), rate_bps)]
    return Sender(rates, sending_s * rate_bps, iterations, compute_s, {LINK: uses})


def slow_ends(senders):
    """When each ends if all share the link at all times."""
    load = sum(one.uses[LINK] * one.rates[0][2] for one in senders.values())
    part = min(1.0, CAPACITY_BPS / load)
    slow = {job: [(a, b, part * bps) for a, b, bps in one.rates] for job, one in senders.items()}
    return {job: replace(one, rates=slow[job]).end_s() for job, one in senders.items()}


def asked(*senders):
    by_job = dict(enumerate(senders, 1))
    return by_job, interleave(by_job, {LINK: CAPACITY_BPS}, slow_ends(by_job))


def most_bps(senders, shifts):
    """The greatest load of the link, looked at in the middle of all times between which nothing changes."""
    bursts = {job: one.bursts(shifts[job]) for job, one in senders.items()}
    times = np.unique(np.concatenate([found[:, :2].ravel() for found in bursts.values()]))
    middles = (times[1:] + times[:-1]) / 2
    loads = np.zeros(len(middles))
    for job, found in bursts.items():
        for begin_s, end_s, rate_bps, _ in found:
            loads += senders[job].uses[LINK] * rate_bps * ((begin_s < middles) & (middles < end_s))
    return loads.max()


def test_two_jobs_send_while_the_other_computes():
    senders, shifts = asked(sender(0.4, 0.5), sender(0.4, 0.5))
    first, second = shifts[1], shifts[2]
    assert first == 0 < 0.4 + GUARD * 0.9 <= second <= 0.5
    assert most_bps(senders, shifts) == pytest.approx(CAPACITY_BPS)
    slow = slow_ends(senders)
    alone_s = senders[1].end_s()
    assert senders[2].end_s(second) / alone_s - 1 < (slow[2] / alone_s - 1) / 2, "a shift halves the slowdown"


def test_half_the_period_fits_twice_into_the_other_ones_computing():
    senders, shifts = asked(sender(0.2, 0.7), sender(0.2, 0.25, 20))
    assert most_bps(senders, shifts) == pytest.approx(CAPACITY_BPS)


def test_three_jobs_that_send_half_of_the_time_are_not_shifted():
    assert asked(*[sender(0.5, 0.5)] * 3)[1] == {}


def test_a_shift_that_costs_more_than_slower_sending_is_not_taken():
    """One iteration each: who waits for the other and the guard ends later than if both had shared the link."""
    assert asked(sender(0.5, 0.1, 1), sender(0.5, 0.1, 1))[1] == {}


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_shifted_fits(seed):
    drawn = random.Random(seed)
    made = [
        sender(
            period_s * duty,
            period_s * (1 - duty),
            drawn.randint(3, 30),
            begin_s=drawn.choice([0.0, 0.25, 1.0]),
            share=drawn.choice([0.5, 1.0]),
            uses=drawn.choice([1, 2]),
        )
        for _ in range(drawn.randint(2, 4))
        for period_s, duty in [(drawn.choice([0.4, 0.8, 1.2]), drawn.choice([0.15, 0.3, 0.45]))]
    ]
    senders, shifts = asked(*made)
    if shifts:
        assert most_bps(senders, shifts) <= CAPACITY_BPS * (1 + 1e-6)
        assert all(0 <= shifts[job] < one.period_s for job, one in senders.items())
        ends = slow_ends(senders)
        assert all(one.end_s(shifts[job]) < ends[job] for job, one in senders.items())
    again = asked(*made)[1]
    assert shifts == again


def test_seeds_find_shifts_and_none():
    """The property above is not empty."""
    found = [bool(asked(sender(0.3, 0.4), sender(duty, 0.7 - duty))[1]) for duty in (0.1, 0.3, 0.5, 0.6)]
    assert found == [True, True, False, False]


def test_bits_are_those_of_all_iterations_whatever_the_rates():
    one = Sender([(0.0, 1.0, 4e6), (1.0, 2.5, 1e6), (2.5, 9.0, 2e6)], 2e6, 4, 0.1, {LINK: 1})
    bursts = one.bursts(0.05)
    assert np.sum((bursts[:, 1] - bursts[:, 0]) * bursts[:, 2]) == pytest.approx(4 * 2e6)
    assert np.all(np.diff(bursts[:, 0]) > 0)
    assert excess({1: bursts}, {1: one}, LINK, 4e6) == 0
    assert excess({1: bursts}, {1: one}, LINK, 3e6) > 0


def computing_jobs(count=2):
    """Over the only circuit of two units; each sends for 0.08 s and computes for 0.1 s."""
    size = round(0.08 * RATE_BPS / 8)
    described = [star(f"job{number}", {"u0": 1}, "u1", size, iterations=8) for number in range(count)]
    return workload(*({**one, "compute_s": 0.1} for one in described))


def test_a_schedule_has_shifts_as_intervals_of_their_own():
    topology, jobs = network(2, hosts=2, servers=2, places=0), computing_jobs()
    timetable = timetable_of(topology, jobs)
    plain, made = assigned(timetable, topology, jobs), as_schedule(timetable, topology, jobs)
    limited = unshifted(plain.intervals, plain.network)
    assert len(made.intervals) == len(limited) + 1
    first, second = made.intervals[:2]
    assert [len(one.plans) for one in (first, second)] == [1, 2]
    assert (first.until_s, first.circuits) == (second.from_s, second.circuits)
    for job, bps in second.rates_bps.items():
        assert bps > 1.3 * limited[0].rates_bps[job], "who is interleaved sends as fast as alone"
    plans = {int(job): plan for job, plan in second.plans.items()}
    overfull = loads_bps({int(job): bps for job, bps in second.rates_bps.items()}, plans)
    assert max(overfull.values()) > RATE_BPS, "both at once would be too much"


def test_jobs_that_never_meet_are_not_shifted():
    topology, jobs = network(3, hosts=2, servers=2, ports=2), computing_jobs(1)
    timetable = timetable_of(topology, jobs)
    plain = assigned(timetable, topology, jobs)
    shown = [(one.from_s, one.until_s, one.rates_bps) for one in as_schedule(timetable, topology, jobs).intervals]
    assert shown == [(one.from_s, one.until_s, one.rates_bps) for one in unshifted(plain.intervals, plain.network)]


def test_a_shifted_job_begins_later_live_and_every_sum_is_right(namespaces, name):
    """Two jobs over the only circuit, each computing longer than it sends."""
    topology = network(2, servers=2, places=0)
    jobs = [star(job, {"u0": 1}, "u1", 250_000, iterations=4) for job in ("one", "other")]
    work = workload(*({**job, "compute_s": 0.1} for job in jobs))
    schedule = as_schedule(timetable_of(topology, work), topology, work)
    first, second = schedule.intervals[:2]
    assert (set(first.plans), set(second.plans)) == ({"1"}, {"1", "2"}), "nothing is shifted"
    with TurnsBed(topology, schedule, name=name) as bed:
        live, _ = run_ranks(bed, work)
    turns = live.seen.turns
    assert {turn.end for turn in turns.values()} == {"done"}
    assert turns[1].begin_s < turns[2].begin_s
    assert len(live.seen.steps) == len(schedule.intervals), "the job that was shifted has another begin"
