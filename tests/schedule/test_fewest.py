"""The bound on set-ups: known where the answer can be told by hand, and below every schedule."""

import pytest

from wiresum.bench.schedule.instances import Case, instance
from wiresum.errors import ScheduleError
from wiresum.schedule import schedule
from wiresum.schedule.fewest import fewest_setups
from wiresum.workload.instance import FORMAT

SECONDS = 10.0


def two_units(jobs, before="none"):
    """So many jobs of 0.9 slots of a circuit each, from u0 to u1, which have four ports; a circuit is dark for 0.1."""
    unit = {"ports": 4, "switch_bps": 80e6, "places": 0}
    star = {"workers": {"u0": 1}, "server": "u1", "bytes": 0.9e6}
    return {
        "format": FORMAT,
        "slot_s": 1.0,
        "dark_s": 0.1,
        "port_bps": 8e6,
        "host_bps": 8e6,
        "before": before,
        "units": [{"name": name, **unit} for name in ("u0", "u1")],
        "jobs": [{"id": number + 1, "traffic": {"star": star}} for number in range(jobs)],
    }


@pytest.mark.parametrize(
    ("jobs", "until_s", "before", "least"),
    [(1, 1.0, "none", 1), (3, 3.0, "none", 1), (3, 2.0, "none", 2), (4, 1.0, "none", 4), (4, 1.0, "even", 0)],
)
def test_a_pair_needs_as_many_as_carry_its_bytes(jobs, until_s, before, least):
    assert fewest_setups(two_units(jobs, before), until_s, SECONDS) == least


def test_nothing_is_told_of_a_time_that_is_too_early():
    assert fewest_setups(two_units(5), 1.0, SECONDS) == 0


def test_a_wrong_instance_is_refused_by_field():
    with pytest.raises(ScheduleError, match="`jobs`"):
        fewest_setups(two_units(0), 1.0, SECONDS)


@pytest.mark.parametrize("seed", range(1, 5))
def test_it_is_what_the_exact_programme_needs(seed):
    asked = instance(Case(units=4, jobs=10, ports=2, places=1), seed)
    cost = schedule(asked, "exact", SECONDS).cost
    assert fewest_setups(asked, cost.completion_s, SECONDS) == cost.setups


def test_circuits_that_cannot_be_lit_together_count_slot_by_slot():
    """Summed over slots nine set-ups seem enough; no schedule has fewer than eleven."""
    asked = instance(Case(units=8, jobs=40), 3)
    assert fewest_setups(asked, schedule(asked, "turns").cost.completion_s, SECONDS) == 11


@pytest.mark.parametrize("seed", range(1, 5))
def test_it_is_below_every_schedule(seed):
    asked = instance(Case(units=4, jobs=10, ports=2, places=1), seed)
    for name in ("turns", "window", "fcfs"):
        cost = schedule(asked, name).cost
        assert fewest_setups(asked, cost.completion_s, SECONDS) <= cost.setups, name
