"""What `bench elastic` decides about members, and makes of what workers say."""

from __future__ import annotations

import json

import pytest

from wiresum.bench.elastic import measure
from wiresum.bench.elastic.command import Options
from wiresum.bench.elastic.measure import Kill, Step, Watch, fail_unless_equal, to_report
from wiresum.bench.elastic.membership import Announcement, Epoch, Membership
from wiresum.errors import TestbedError


def announced(seat: int, life: int = 0, steps: int = 0) -> Announcement:
    return Announcement(seat, life, f"handle {seat}.{life}", steps)


def test_the_first_epoch_waits_for_all_and_who_has_done_most_comes_first() -> None:
    membership = Membership(members={0, 1, 2})
    membership.announce(announced(0))
    membership.announce(announced(2, steps=4))
    assert membership.decide() is None
    membership.announce(announced(1))
    assert membership.decide() == Epoch(1, ["handle 2.0", "handle 0.0", "handle 1.0"])
    assert membership.decide() is None, "nobody waits"


def test_a_worker_that_has_ended_is_not_waited_for() -> None:
    membership = Membership(members={0, 1, 2}, epoch=4)
    membership.announce(announced(0, steps=9))
    membership.end(1, 0)
    assert membership.is_changing
    assert membership.decide() is None, "worker 2 is alive"
    membership.announce(announced(2, steps=9))
    assert membership.decide() == Epoch(5, ["handle 0.0", "handle 2.0"])


def test_one_that_comes_back_has_the_others_announce_themselves() -> None:
    membership = Membership(members={0, 2}, epoch=5)
    membership.announce(announced(1, life=1))
    membership.end(1, 0)  # of its life before, told late
    assert membership.is_changing
    assert membership.decide() is None
    membership.announce(announced(0, steps=9))
    membership.announce(announced(2, steps=9))
    assert membership.decide() == Epoch(6, ["handle 0.0", "handle 2.0", "handle 1.1"])


def steps(*told: tuple[int, int, int]) -> list[Step]:
    """Steps of processes: process, number, checksum."""
    return [Step(0, pid, number, checksum, 1, 2, 0.0) for pid, number, checksum in told]


def test_steps_have_to_be_equal_but_for_the_last_of_a_killed_worker() -> None:
    equal = steps((1, 1, 10), (2, 1, 10), (1, 2, 20), (2, 2, 20))
    assert fail_unless_equal(equal, set()) == 0
    again = [*equal, *steps((3, 3, 31), (1, 3, 30), (2, 3, 30))]
    assert fail_unless_equal(again, {3}) == 1
    with pytest.raises(TestbedError, match="step 3 differs"):
        fail_unless_equal(again, set())
    with pytest.raises(TestbedError, match="step 1 is missing"):
        fail_unless_equal(steps((1, 2, 20)), set())


def test_a_watch_reads_what_workers_print() -> None:
    watch = Watch()
    said = {"seat": 3, "pid": 77, "at": 5.0}
    watch.take(3, False, '{"seat": 3, "pi' + json.dumps({**said, "step": 9, "checksum": 4, "epoch": 2, "members": 3}))
    watch.take(3, False, json.dumps({**said, "lost": "worker w1"}))
    watch.take(3, True, "Traceback")
    assert watch.steps == [Step(3, 77, 9, 4, 2, 3, 5.0)]
    assert watch.lost == [(3, 5.0)]
    assert watch.errors == ["Traceback"]
    report = to_report(Options(kills=1), [Kill(2, 0.9, 1.1, 77)], watch, 0)
    assert [result.runs for result in report.results] == [[0.9], [1.1]]


@pytest.mark.needs("namespaces")
def test_workers_are_killed_and_the_others_go_on() -> None:
    options = Options(kills=2, workers=3, engine="udp")
    report = measure.measure(options, lambda _done, _all: None)
    assert [len(result.runs) for result in report.results] == [2, 2]
    assert report.parameters["survivors"] == [2]
