"""The programme of P4INC-AOI as printed: every correction changes some answer, and all together make it `exact`."""

from __future__ import annotations

import pytest

from wiresum.bench.schedule.instances import Case, instance
from wiresum.errors import ScheduleError
from wiresum.schedule import schedule
from wiresum.schedule.printed import ALL, CORRECTIONS, claim
from wiresum.workload.instance import FORMAT

SMALL = Case(units=4, jobs=8, ports=2, places=1)
LOOSER = ("whole", "bytes", "ends", "hosts", "arrivals")
"""Corrections that take answers away and give none."""
SLOT_BYTES = 1e9
"""Bytes that a circuit carries in a slot."""
DARK_S = 0.25
SECONDS = 30.0


def network(jobs, *, ports=1, places=0, host=4.0, before="none"):
    """Three units; a worker's link has `host` times the rate of a circuit."""
    return {
        "format": FORMAT, "slot_s": 1.0, "dark_s": DARK_S, "port_bps": 8 * SLOT_BYTES,
        "host_bps": 8 * host * SLOT_BYTES,
        "units": [{"name": f"u{unit}", "ports": ports, "switch_bps": 1e15, "places": places} for unit in range(3)],
        "before": before, "paper": True,
        "jobs": [{"id": number, **job} for number, job in enumerate(jobs)],
    }  # fmt: skip


def star(workers, server, slots, arrival_s=0.0, update_s=0.0):
    known = {"workers": workers, "server": server, "bytes": slots * SLOT_BYTES, "update_s": update_s}
    return {"arrival_s": arrival_s, "traffic": {"star": known}}


LIT = {"given": [{"between": ["u0", "u1"], "circuits": 1}]}
WITNESSES = {
    "whole": (network([star({"u0": 4, "u1": 4}, "u1", 0.5)], places=1), 3.0, 1.0),
    "bytes": (network([star({"u0": 2}, "u1", 2.0)], places=1, host=1.0), 2.0, 1.0),
    "kept": (network([star({"u0": 1}, "u1", 1.0)], before=LIT), 1.0, 2.0),
    "light": (network([star({"u0": 1}, "u1", 1.0 - DARK_S / 2)] * 2, ports=2, before=LIT), 1.0, 2.0),
    "ends": (network([star({"u0": 1}, "u1", 0.5)], before=LIT), 1.0, 0.0),
    "hosts": (network([star({"u0": 1}, "u0", 2.0)], host=1.0), 2.0, 1.0),
    "arrivals": (network([star({"u0": 1}, "u1", 0.5, arrival_s=2.0)], before=LIT), 3.0, 1.0),
    "before": (network([star({"u0": 1}, "u1", 1.0)]), 2.0, 1.0),
}
"""For each correction an instance, its completion with all corrections, and with all but this one."""


def test_every_correction_has_its_witness():
    assert WITNESSES.keys() == CORRECTIONS.keys()


@pytest.mark.parametrize("name", WITNESSES)
def test_what_a_correction_changes(name):
    asked, right_s, wrong_s = WITNESSES[name]
    # Without Eq. (7) there is no use for the correction of Eq. (10).
    others = ALL - ({"kept", "light"} if name == "kept" else {name})
    assert claim(asked, SECONDS, ALL).completion_s == pytest.approx(right_s)
    assert schedule(asked, "exact", SECONDS).cost.completion_s == pytest.approx(right_s)
    assert claim(asked, SECONDS, others).completion_s == pytest.approx(wrong_s)


@pytest.mark.parametrize("seed", range(1, 4))
def test_with_all_corrections_it_is_the_exact_programme(seed):
    asked = instance(SMALL, seed)
    best, corrected = schedule(asked, "exact", SECONDS), claim(asked, SECONDS, ALL)
    assert best.status == "optimal"
    assert corrected.is_proven
    assert corrected.completion_s == pytest.approx(best.cost.completion_s)
    for name in LOOSER:
        looser = claim(asked, SECONDS, ALL - {name})
        assert looser.completion_s <= corrected.completion_s + 1e-6, name


@pytest.mark.parametrize(
    ("change", "corrections", "message"),
    [
        ({}, {"colour"}, "no correction colour"),
        ({}, {"light"}, "add `kept`"),
        ({"paper": False}, ALL, "`paper`"),
        ({"darkens": "all"}, ALL, "`darkens`"),
    ],
)
def test_what_the_printed_programme_cannot_be_asked(change, corrections, message):
    with pytest.raises(ScheduleError, match=message):
        claim({**instance(SMALL, 1), **change}, SECONDS, corrections)
