import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from wiresum import wire
from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.job import IP_UDP_BYTES, Job, values_for_mtu
from wiresum.plan.models import equal_parts
from wiresum.plan.options import PlanOptions
from wiresum.planners import PLANNERS, SWITCH_PLANNERS, plan
from wiresum.planners.auto import slow_copies
from wiresum.planners.fabrics import plan_switched
from wiresum.predict import predict
from wiresum.topology.generators.goat import goat
from wiresum.topology.generators.ingo import ingo
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Link, Node, Topology


def children(made: AggregationPlan, node: str) -> list[str]:
    """Names of a node's children in the tree of the values."""
    ids = {entry.name: entry.id for entry in made.nodes}
    return [
        made.workers[child.worker].name if hasattr(child, "worker") else made.node(child.node).name
        for child in made.streams[1].children(ids[node])
    ]


NEED_SERVERS = {"byteps"}
"""Tested in `test_rivals`."""
NEED_TIMES = {"goat-async", "ksgd"}
"""Tested in `test_participation`."""


@pytest.mark.parametrize("planner", sorted(PLANNERS.keys() - SWITCH_PLANNERS.keys() - NEED_SERVERS - NEED_TIMES))
@pytest.mark.parametrize("policy", ["pool", "cache"])
@pytest.mark.parametrize("topology", [star(1), star(4), star(64), xagg()], ids=["star1", "star4", "star64", "xagg"])
def test_every_planner_makes_a_valid_plan(planner, policy, topology):
    made = plan(topology, Job(policy=policy), planner=planner)
    assert AggregationPlan.parse(made.to_json()) == made
    assert [worker.name for worker in made.workers] == [worker.name for worker in topology.workers]


@pytest.mark.parametrize("planner", SWITCH_PLANNERS)
@pytest.mark.parametrize("topology", [goat(), ingo(), xagg()], ids=["goat", "ingo", "xagg"])
def test_every_planner_of_switch_networks_makes_a_valid_plan(planner, topology):
    made = plan(topology, Job(sub_models=equal_parts("model", 8_000_000, 3)), planner=planner)
    assert AggregationPlan.parse(made.to_json()) == made
    assert made.solution is not None
    assert made.node(made.streams[1].root).name in {"ps", "PS"}


def test_a_star_sums_at_its_switch():
    made = plan(star(3), Job(), PlanOptions(engine="udp", port=6000))
    assert [(node.name, node.address, node.engine) for node in made.nodes] == [("switch", "10.99.0.254:6000", "udp")]
    assert children(made, "switch") == ["w0", "w1", "w2"]


def test_a_star_carries_copies_in_streams_of_their_own():
    plain, made = plan(star(4), Job()), plan(star(4), Job(copies=True, window=100))
    assert [stream.role for stream in plain.streams] == ["exponents", "values"]
    parts, copies, *barriers = made.streams[2:]
    assert (parts.role, copies.role, *(one.role for one in barriers)) == (
        "parts", "copies", "acknowledgements", "acknowledgements"
    )  # fmt: skip
    assert {(one.slots, one.window, one.policy) for one in (parts, copies)} == {(256, 100, "cache")}
    assert AggregationPlan.parse(made.to_json()) == made


@pytest.mark.parametrize("more", [{"window": 1}, {"slots": 8, "window": 8}, {"window": 4000}, {"policy": "cache"}])
def test_copies_fit_any_window(more):
    made = plan(star(2), Job(copies=True, **more))
    assert all(stream.window <= stream.slots for stream in made.streams)


@pytest.mark.parametrize(
    ("topology", "job", "planner", "what"),
    [
        (
            star(65),
            Job(copies=True),
            "direct",
            "job.copies: each server that copies has a seat for every worker, 64 at most, and there are 65",
        ),
        (star(2), Job(copies=True, sealed=True), "direct", "job.sealed"),
        (star(2), Job(copies=True, proven=True), "direct", "job.proven"),
        (star(2), Job(copies=True, codec="fixed:1e6"), "direct", "job.codec"),
        (star(2), Job(copies=True, exponents="expected"), "direct", "job.exponents"),
        (star(1), Job(copies=True), "direct", "workers"),
    ],
)
def test_what_cannot_go_with_copies_is_refused_by_name(topology, job, planner, what):
    with pytest.raises(PlanError, match=what):
        plan(topology, job, planner=planner)


def test_auto_takes_what_can_carry_copies():
    exchanges = [stream for stream in plan(xagg(), Job(copies=True), planner="auto").streams if stream.is_exchange]
    assert {stream.role for stream in exchanges} == {"parts", "copies", "acknowledgements"}
    assert {len(stream.places) for stream in exchanges} == {1}


def test_copies_that_are_slower_than_none_are_told():
    job = Job(copies=True, gradient_bytes=25_000_000)
    assert slow_copies(star(4), job, plan(star(4), job)) == ""
    assert slow_copies(xagg(), job, plan(xagg(), job, planner="xagg")) == ""
    made = plan(xagg(), job.model_copy(update={"copy_servers": 1}), planner="xagg")
    told = "copies by PS: a reduce-scatter beside an all-gather of 25 MB is predicted to take 1.441 s, and 1.2"
    assert slow_copies(xagg(), job, made).startswith(told)


def test_copies_change_no_prediction():
    seconds = [predict(star(3), plan(star(3), Job(id=1, copies=copies)), 10**7).seconds for copies in (False, True)]
    assert seconds[0] == seconds[1]


def test_switches_refuse_copies_by_name():
    with pytest.raises(PlanError, match=r"job\.copies: switches"):
        plan_switched(goat().with_addresses(), Job(copies=True), PlanOptions(), "ps")


def test_xagg_sums_at_its_servers_then_at_the_ps():
    made = plan(xagg(), Job())
    assert children(made, "S1") == ["W1", "W2", "W3"]
    assert children(made, "S2") == ["W4", "W5", "W6"]
    assert set(children(made, "PS")) == {"S1", "S2", "W7"}


def test_workers_without_a_choice_sum_at_the_nearest_node():
    nodes = [
        Node(name="a", kind="worker"),
        Node(name="b", kind="worker"),
        Node(name="near", kind="switch", aggregation_rate_bps=1e9, sums_at="far"),
        Node(name="far", kind="switch", aggregation_rate_bps=1e9),
    ]
    links = [
        Link(id="1", source="a", target="near"),
        Link(id="2", source="b", target="far"),
        Link(id="3", source="near", target="far"),
    ]
    made = plan(Topology(name="two", nodes=nodes, links=links), Job())
    assert children(made, "near") == ["a"]
    assert sorted(children(made, "far")) == ["b", "near"]


def test_a_job_may_take_some_of_the_workers():
    made = plan(xagg(), Job(workers=["W7", "W2"]))
    assert [worker.name for worker in made.workers] == ["W7", "W2"]
    assert {node.name for node in made.nodes} == {"PS", "S1"}


def cycle() -> Topology:
    rate = {"aggregation_rate_bps": 1e9}
    nodes = [
        Node(name="w", kind="worker", sums_at="a"),
        Node(name="a", kind="switch", sums_at="b", **rate),
        Node(name="b", kind="switch", sums_at="a", **rate),
    ]
    return Topology(name="cycle", nodes=nodes)


def two_roots() -> Topology:
    rate = {"aggregation_rate_bps": 1e9}
    nodes = [
        Node(name="w", kind="worker", sums_at="a"),
        Node(name="v", kind="worker", sums_at="b"),
        Node(name="a", kind="ps", **rate),
        Node(name="b", kind="ps", **rate),
    ]
    return Topology(name="roots", nodes=nodes)


def small_memory() -> Topology:
    topology = star(2)
    nodes = [node.model_copy(update={"memory_bytes": 1000}) if node.sums else node for node in topology.nodes]
    return topology.model_copy(update={"nodes": nodes})


IMPOSSIBLE = {
    "form a cycle": lambda: plan(cycle(), Job()),
    "are all roots": lambda: plan(two_roots(), Job()),
    "has no workers": lambda: plan(Topology(name="t", nodes=[Node(name="s", kind="switch")]), Job()),
    "reaches no node that sums": lambda: plan(Topology(name="t", nodes=[Node(name="w", kind="worker")]), Job()),
    "switch is not a worker": lambda: plan(star(2), Job(workers=["switch"])),
    "has 1000 bytes for slots": lambda: plan(small_memory(), Job()),
    "must have 1..=64 children": lambda: plan(star(65), Job()),
    "there is no planner magic": lambda: plan(star(2), Job(), planner="magic"),
}


@pytest.mark.parametrize(("message", "make"), IMPOSSIBLE.items(), ids=list(IMPOSSIBLE))
def test_a_job_that_has_no_place_is_refused_with_the_reason(message, make):
    with pytest.raises(PlanError) as refused:
        make()
    assert message in str(refused.value)


@given(st.integers(576, 65535), st.sampled_from([wire.PAGE_VALUES, wire.MAX_VALUES]))
def test_packets_fill_the_mtu_and_never_exceed_it(mtu_bytes, most):
    values = values_for_mtu(mtu_bytes, most)
    packet = IP_UDP_BYTES + wire.HEADER_LEN + 4 * values
    assert packet <= mtu_bytes
    assert mtu_bytes - packet < wire.BLOCK_LEN or values == most


@given(st.integers(1, 10**9), st.integers(1, 4096), st.sampled_from(["int32-le", "int16-le"]))
def test_cache_holds_the_whole_gradient(gradient_bytes, window, lanes):
    job = Job(policy="cache", gradient_bytes=gradient_bytes, window=window, lanes=lanes)
    values_per_fragment = job.packet_values * (2 if lanes == "int16-le" else 1)
    assert job.value_slots * values_per_fragment * 4 >= gradient_bytes
    assert job.value_slots >= window
    assert job.value_slots & (job.value_slots - 1) == 0


@pytest.mark.parametrize(
    ("workers", "more", "lanes"),
    [
        (4, {}, "auto"),
        (4, {"lanes": "int16-le"}, "int16-le"),
        (4, {"exponents": "expected"}, "auto"),
        (4, {"sealed": True, "proven": True}, "auto"),
        (4, {"copies": True}, "auto"),
        (4, {"codec": "fixed:1e8"}, "int32-le"),
    ],
)
def test_lanes_are_as_wide_as_elements_where_they_can(workers, more, lanes):
    assert plan(star(workers), Job(**more)).job.lanes == lanes


def test_lanes_of_many_workers_and_of_switches_are_wide():
    assert [Job().lanes_of(workers) for workers in (128, 129)] == ["auto", "int32-le"]
    assert plan_switched(ingo("mesh").with_addresses(), Job(), PlanOptions(), "ingo").job.lanes == "int32-le"


def test_pool_has_two_windows_of_slots():
    assert Job(window=192).value_slots == 512
    assert Job(window=256).value_slots == 512
    assert Job(window=192, slots=1024).value_slots == 1024


def test_secrets_are_random():
    assert Job().secret != Job().secret


@pytest.mark.parametrize(
    "field", [{"secret": "x"}, {"window": 0}, {"policy": "lru"}, {"mtu_bytes": 100}, {"copy_servers": 2}]
)
def test_a_job_that_cannot_be_is_refused(field):
    with pytest.raises(ValidationError):
        Job(**field)


def test_a_gradient_too_large_for_cache_is_refused():
    with pytest.raises(ValidationError, match="use the policy `pool`"):
        Job(policy="cache", gradient_bytes=10**11)
