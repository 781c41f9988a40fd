"""What is exchanged follows an adjusted plan: who is left carries it, in proportion."""

from __future__ import annotations

import pytest
from tests.adjust.test_adjustment import WITHOUT_MEMORY, with_spare
from tests.adjust.test_replanning import without

from wiresum.adjust import adjust
from wiresum.adjust.exchanges import dense, exchanging
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.exchanges import servers_of
from wiresum.plan.job import Job
from wiresum.planners import plan
from wiresum.topology.generators.xagg import xagg

JOB = Job(copies=True)


def exchanges(made: AggregationPlan) -> list[str]:
    return [stream.role for stream in made.streams if stream.is_exchange]


@pytest.mark.parametrize("loads", [{}, {"S1": WITHOUT_MEMORY}], ids=["gone", "full"])
def test_servers_that_are_left_carry_what_one_carried(loads):
    before = plan(xagg(), JOB)
    assert servers_of(before) == {name: pytest.approx(1 / 3, abs=0.01) for name in ("PS", "S1", "S2")}
    after = adjust(before, xagg() if loads else without(xagg(), "S1"), loads)
    assert servers_of(after.plan) == {name: pytest.approx(1 / 2, abs=0.01) for name in ("PS", "S2")}
    assert "S1 exchanges nothing any more" in after.reasons
    assert exchanges(after.plan) == 2 * ["parts"] + 2 * ["copies"] + 4 * ["acknowledgements"]
    assert AggregationPlan.parse(after.plan.to_json()) == after.plan
    windows = [stream.window for stream in after.plan.streams if stream.role == "copies"]
    assert sum(windows) == pytest.approx(JOB.window, abs=2)


def test_a_new_root_carries_all_where_nobody_is_left():
    before = plan(with_spare(), JOB.model_copy(update={"copy_servers": 1}))
    assert servers_of(before) == {"PS": 1.0}
    after = adjust(before, without(with_spare(), "PS")).plan
    root = after.node(after.streams[1].root).name
    assert servers_of(after) == {root: 1.0}
    assert exchanges(after) == exchanges(before)


def test_a_server_that_workers_do_not_reach_exchanges_no_more():
    before = plan(xagg(), JOB)
    cut = xagg().model_copy(update={"links": [link for link in xagg().links if link.source != "S2"]})
    after, reasons = exchanging(before, dense(before), cut)
    assert servers_of(after).keys() == {"PS", "S1"}
    assert reasons == ["S2 exchanges nothing any more"]


def test_nothing_moves_without_a_reason():
    before = plan(xagg(), JOB)
    assert adjust(before, xagg()).plan is before
