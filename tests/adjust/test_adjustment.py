"""Plans that follow the load: who must go goes, who slows the job down goes, everyone else stays."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.predict.networks import one_switch

from wiresum.adjust.adjustment import WORTHWHILE_GAIN, Load, adjust
from wiresum.errors import PlanError, TopologyError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.job import Job
from wiresum.plan.placement import parents_of
from wiresum.planners import plan
from wiresum.planners.xagg.selection import MEMORY_SHARE
from wiresum.predict import predict
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Link, Node, Topology

WITHOUT_MEMORY = Load(memory_used_bytes=round(MEMORY_SHARE * 128e9))


def with_spare(rate_bps: float = 1e9) -> Topology:
    """XAgg's test bed and one server more."""
    base = xagg()
    spare = Node(name="S3", kind="aggregator", aggregation_rate_bps=1e9, memory_bytes=128 * 10**9, cores=44)
    link = Link(id="S3", source="S3", target="fabric", bandwidth_bps=rate_bps)
    return Topology(name="spare", nodes=[*base.nodes, spare], links=[*base.links, link]).with_addresses()


def tree(made: AggregationPlan) -> dict[str, str | None]:
    return parents_of(made, made.streams[1])


def test_nothing_moves_without_a_reason():
    before = plan(xagg(), Job())
    after = adjust(before, xagg(), {"S1": Load(memory_used_bytes=10**9, idle_cores=40)})
    assert after.plan is before
    assert (after.reasons, after.moves) == ((), ())


def test_children_of_a_server_without_memory_go_to_its_parent():
    before = plan(xagg(), Job())
    after = adjust(before, xagg(), {"S1": WITHOUT_MEMORY})
    assert [str(move) for move in after.moves] == [f"W{n} moves from S1 to PS" for n in (1, 2, 3)]
    assert after.reasons[0].startswith("S1 would use ")
    assert "more than 80%" in after.reasons[0]
    assert tree(after.plan) == {name: "PS" if parent == "S1" else parent for name, parent in tree(before).items()
                                if name != "S1"}  # fmt: skip
    assert after.plan.planner.startswith("direct; adjusted: S1 would use")


def test_they_go_to_a_free_server_where_that_is_quicker():
    before = plan(with_spare(), Job())
    after = adjust(before, with_spare(), {"S1": WITHOUT_MEMORY})
    assert {str(move) for move in after.moves} == {
        "W1 moves from S1 to S3", "W2 moves from S1 to S3", "W3 moves from S1 to S3", "S3 moves from None to PS",
    }  # fmt: skip
    new = next(node for node in after.plan.nodes if node.name == "S3")
    assert (new.address, new.engine) == ("10.99.0.11:5747", before.nodes[0].engine)
    for name in ("S2", "PS"):
        assert next(n for n in after.plan.nodes if n.name == name) == next(n for n in before.nodes if n.name == name)


def test_a_free_server_that_is_slow_is_not_taken():
    after = adjust(plan(with_spare(1e7), Job()), with_spare(1e7), {"S1": WITHOUT_MEMORY})
    assert {move.after for move in after.moves} == {"PS"}


@pytest.mark.parametrize("load", [Load(bandwidth_bps=50e6), Load(idle_cores=2)])
def test_a_server_that_slows_the_job_down_is_left(load):
    before = plan(with_spare(), Job())
    after = adjust(before, with_spare(), {"S2": load})
    assert {move.before for move in after.moves} >= {"S2"}
    assert "S2" not in tree(after.plan)
    assert after.reasons[0].startswith("S2 slows an all-reduce of 100 MB down: ")


def test_one_bad_server_is_no_reason_to_leave_another():
    after = adjust(plan(xagg(), Job()), xagg(), {"S2": Load(idle_cores=0)})
    assert list(after.reasons) == ["S2 has no idle core; free one"]
    assert {move.before for move in after.moves} == {"S2"}


def test_a_server_that_costs_little_stays():
    before = plan(xagg(), Job())
    now = {"S1": Load(bandwidth_bps=(1 - WORTHWHILE_GAIN / 2) * 1e9)}
    assert adjust(before, xagg(), now).plan is before


def test_the_root_is_replaced_by_a_free_server():
    after = adjust(plan(with_spare(), Job()), with_spare(), {"PS": Load(idle_cores=0)})
    assert tree(after.plan)["S3"] is None
    assert {str(move) for move in after.moves} == {f"{name} moves from PS to S3" for name in ("S1", "S2", "W7")}


def test_rates_are_negotiated_within_what_other_work_leaves():
    loads = {"S1": WITHOUT_MEMORY, "S2": Load(bandwidth_bps=0.9e9)}
    after = adjust(plan(xagg(), Job()), xagg(), loads).plan
    left = {node.name: (node.ingress_bps, node.egress_bps) for node in after.nodes}
    assert left == {"PS": (10**9, 10**9), "S2": (900_000_000, 900_000_000)}


def test_a_root_that_none_can_replace_is_an_error():
    with pytest.raises(PlanError, match="PS has no idle core; free one; or add a free server"):
        adjust(plan(xagg(), Job()), xagg(), {"PS": Load(idle_cores=0)})


def test_a_load_of_an_unknown_server_is_refused():
    with pytest.raises(TopologyError, match="has no node S9"):
        adjust(plan(xagg(), Job()), xagg(), {"S9": Load()})


def test_every_tree_of_a_plan_is_adjusted():
    network = one_switch({"a": 1, "b": 1}, {"S1": 10, "S2": 10, "PS": 10})
    whole = plan(network.model_copy(update={"nodes": [
        node.model_copy(update={"sums_at": {"a": "S1", "b": "S1", "S1": "PS"}.get(node.name)}) for node in network.nodes
    ]}), Job())  # fmt: skip
    exponents, values = whole.streams
    first = values.model_copy(update={"share": 0.5})
    second = values.model_copy(update={"share": 0.5, "id": 2, "legs": values.legs[::-1]})
    split = whole.model_copy(update={"streams": [exponents, first, second]})
    after = adjust(split, network, {"S1": Load(idle_cores=0)}).plan
    assert all("S1" not in parents_of(after, stream) for stream in after.streams)
    assert AggregationPlan.parse(after.to_json()) == after


@settings(max_examples=15)
@given(
    st.dictionaries(
        st.sampled_from(["S1", "S2", "S3"]),
        st.builds(Load, bandwidth_bps=st.sampled_from([None, 20e6, 300e6, 950e6]), idle_cores=st.integers(0, 44)),
    )
)
def test_an_adjusted_plan_is_valid_and_not_slower(loads):
    from wiresum.adjust.adjustment import with_loads

    network = with_spare()
    before = plan(network, Job(secret="0123456789abcdef" * 4))
    after = adjust(before, network, loads)
    assert AggregationPlan.parse(after.plan.to_json()) == after.plan
    assert adjust(before, network, loads) == after
    idle = [name for name, load in loads.items() if load.idle_cores == 0]
    assert not set(idle) & set(tree(after.plan))
    if not idle:
        now = with_loads(network, loads)
        assert predict(now, after.plan, 10**8).seconds <= predict(now, before, 10**8).seconds * (1 + 1e-9)
    assert bool(after.moves) == (after.plan is not before)
