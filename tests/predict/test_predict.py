"""Closed forms, and what any prediction must satisfy."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.predict.networks import GBIT, one_switch

from wiresum.bench.limit import StarTraffic
from wiresum.errors import PlanError, TopologyError
from wiresum.plan.job import Job
from wiresum.planners import plan
from wiresum.predict import predict, predict_ring, predict_tree
from wiresum.predict.prediction import FlowRates, Prediction
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Link, Node, Topology

EXACT = 1e-9


@pytest.mark.parametrize("policy", ["pool", "cache"])
@pytest.mark.parametrize("elements", [1, 737, 6_250_000])
@pytest.mark.parametrize(("lanes", "lane_bytes"), [("int32-le", 4), ("int16-le", 2)])
def test_a_star_needs_what_its_links_need(policy, elements, lanes, lane_bytes):
    network = star(4, rate_bps=500e6)
    job = Job(policy=policy, lanes=lanes)
    prediction = predict(network, plan(network, job), 4 * elements)
    limit = StarTraffic(elements, workers=4, payload_bytes=4 * job.packet_values, lane_bytes=lane_bytes)
    assert prediction.seconds == pytest.approx(limit.seconds(500e6), rel=EXACT)
    assert prediction.root_done_seconds == pytest.approx(prediction.seconds, rel=EXACT)


@pytest.mark.parametrize(("lanes", "lane_bytes"), [("auto", 2), ("int32-le", 4), ("int16-le", 2)])
def test_narrow_elements_take_what_their_lanes_take(lanes, lane_bytes):
    made = plan(star(4, rate_bps=500e6), Job(lanes=lanes))
    elements = 6_250_000
    prediction = predict(star(4, rate_bps=500e6), made, made.job.as_float32(2 * elements, element_bytes=2))
    limit = StarTraffic(elements, workers=4, payload_bytes=made.job.payload_bytes, lane_bytes=lane_bytes)
    assert prediction.seconds == pytest.approx(limit.seconds(500e6), rel=EXACT)


@pytest.mark.parametrize("lanes", ["auto", "int32-le", "int16-le"])
def test_elements_of_8_bits_take_a_byte_each_in_any_lanes(lanes):
    made = plan(star(4, rate_bps=500e6), Job(lanes=lanes))
    elements = 6_250_000
    prediction = predict(star(4, rate_bps=500e6), made, made.job.as_float32(4 * elements, 4, eight_bits=True))
    limit = StarTraffic(elements, workers=4, payload_bytes=made.job.payload_bytes, lane_bytes=1)
    assert prediction.seconds == pytest.approx(limit.seconds(500e6), rel=EXACT)


@pytest.mark.parametrize("workers", [1, 2, 7, 100])
def test_a_parameter_server_needs_n_times_the_gradient(workers):
    names = {f"W{n}": 10.0 for n in range(workers)}
    tree = dict.fromkeys(names, "PS") | {"PS": None}
    prediction = predict_tree(one_switch(names, {"PS": 10}), tree, 1.25e9)
    assert prediction.seconds == pytest.approx(workers, rel=EXACT)


@pytest.mark.parametrize("workers", [2, 4, 7])
def test_a_ring_needs_two_gradients_but_a_share(workers):
    network = star(workers, rate_bps=1 * GBIT)
    late = predict_ring(network, 125e6, starts={"w1": 3.0})
    assert late.seconds == pytest.approx(3 + 2 * (workers - 1) / workers, rel=EXACT)


def test_the_slowest_worker_slows_the_whole_ring():
    network = one_switch({"a": 10, "b": 2, "c": 10}, {"PS": 10})
    assert predict_ring(network, 1.25e9).seconds == pytest.approx(5 * 4 / 3, rel=EXACT)


def test_what_a_node_can_add_is_a_bottleneck():
    network = star(4, rate_bps=500e6, aggregation_rate_bps=1e9)
    tree = dict.fromkeys(("w0", "w1", "w2", "w3"), "switch") | {"switch": None}
    prediction = predict_tree(network, tree, 125e6)
    assert prediction.seconds == pytest.approx(4, rel=EXACT)
    assert str(prediction.bottleneck.capacity) == "switch adds"


def test_a_server_with_one_link_shares_it_between_children_and_results():
    network = one_switch({"a": 10, "b": 10}, {"S": 10, "PS": 10})
    tree = {"a": "S", "b": "S", "S": "PS", "PS": None}
    assert predict_tree(network, tree, 1.25e9, upload_only=True).seconds == pytest.approx(2, rel=EXACT)
    # Into S: two gradients and the result; out of S: the sum and two results.
    assert predict_tree(network, tree, 1.25e9, policy="pool").seconds == pytest.approx(3, rel=EXACT)


def test_a_node_catches_up_at_its_own_rate_and_then_follows():
    network = one_switch({"early": 10, "late": 2}, {"S": 10, "PS": 10})
    tree = {"early": "S", "late": "S", "S": "PS", "PS": None}
    prediction = predict_tree(network, tree, 1.25e9, upload_only=True)
    up = next(one for one in prediction.flows if one.flow.source == "S")
    assert [(span.begin_seconds, span.rate_bps / GBIT) for span in up.spans] == [(0, pytest.approx(2))]
    assert prediction.seconds == pytest.approx(5, rel=EXACT)


def test_a_backlog_leaves_at_the_rate_of_the_link():
    network = one_switch({"a": 10, "b": 10}, {"S": 10, "PS": 10})
    links = [link.model_copy(update={"reverse_bandwidth_bps": 20 * GBIT}) if link.id == "S" else link
             for link in network.links]  # fmt: skip
    links = [link.model_copy(update={"bandwidth_bps": 4 * GBIT}) if link.id == "S" else link for link in links]
    network = network.model_copy(update={"links": links})
    tree = {"a": "S", "b": "S", "S": "PS", "PS": None}
    prediction = predict_tree(network, tree, 1.25e9, starts={"b": 1.0}, upload_only=True)
    assert prediction.seconds == pytest.approx(1 + 2.5, rel=EXACT)


@st.composite
def trees(draw):
    """A network of one switch with random rates, a random tree over its servers, and random starts."""
    rates = st.integers(1, 20).map(float)
    workers = {f"W{n}": draw(rates) for n in range(draw(st.integers(1, 6)))}
    servers = {f"S{n}": draw(rates) for n in range(draw(st.integers(0, 3)))} | {"PS": draw(rates)}
    network = one_switch(workers, servers, adding_bps=draw(st.integers(5, 50)) * GBIT)
    tree: dict[str, str | None] = {"PS": None}
    for server in [name for name in servers if name != "PS"]:
        tree[server] = draw(st.sampled_from(sorted(tree)))
    for worker in workers:
        tree[worker] = draw(st.sampled_from(sorted(servers)))
    while leaf := next((name for name in servers if name != "PS" and name in tree and name not in tree.values()), None):
        del tree[leaf]
    starts = {name: draw(st.integers(0, 30)) / 10 for name in workers if draw(st.booleans())}
    return network, tree, starts, draw(st.sampled_from(["pool", "cache"])), draw(st.booleans())


def rate_at(one: FlowRates, seconds: float) -> float:
    """bit/s of a flow at a time; at a change the rate after it."""
    return next((span.rate_bps for span in one.spans if span.begin_seconds <= seconds < span.end_seconds), 0.0)


def sent_until(one: FlowRates, seconds: float) -> float:
    """Bytes that a flow has sent by then."""
    return sum(span.rate_bps / 8 * max(0.0, min(seconds, span.end_seconds) - span.begin_seconds) for span in one.spans)


def check(prediction: Prediction) -> None:
    """What holds for every prediction: capacities, conservation, causality, and the bound of the busiest link."""
    flows = prediction.flows
    moments = sorted({span.begin_seconds for one in flows for span in one.spans})
    for load in prediction.links:
        crossing = [one for one in flows if load.capacity in one.flow.path]
        for moment in moments:
            assert sum(rate_at(one, moment) for one in crossing) <= load.bandwidth_bps * (1 + EXACT)
        assert sum(one.flow.wire_bytes for one in crossing) == pytest.approx(load.wire_bytes)
        assert load.busy_seconds <= prediction.seconds * (1 + EXACT)
    for one in flows:
        assert sent_until(one, prediction.seconds) == pytest.approx(one.flow.wire_bytes, rel=1e-6)
        assert all(span.begin_seconds >= one.flow.start_seconds for span in one.spans)
        for moment in moments:
            for feed in one.flow.feeds:
                ahead = sent_until(one, moment) - sent_until(flows[feed], moment)
                assert ahead <= 1e-6 * one.flow.wire_bytes


@settings(max_examples=150)
@given(trees())
def test_every_prediction_respects_links_bytes_and_order(case):
    network, tree, starts, policy, upload_only = case
    prediction = predict_tree(network, tree, 1e9, starts=starts, policy=policy, upload_only=upload_only)
    check(prediction)
    again = predict_tree(network, tree, 1e9, starts=starts, policy=policy, upload_only=upload_only)
    assert again == prediction


@pytest.mark.parametrize("policy", ["pool", "cache"])
def test_the_test_bed_of_xagg(policy):
    """S1's link carries three gradients and a result in, a sum and three results out: four at 1 Gbit/s."""
    network = xagg()
    prediction = predict(network, plan(network, Job(policy=policy)), 25_000_000)
    check(prediction)
    assert prediction.bottleneck.capacity.source in {"S1", "S2", "fabric"}
    assert prediction.bottleneck.utilisation == pytest.approx(1)


def test_parallel_streams_share_the_links():
    network = star(2, rate_bps=100e6)
    whole = plan(network, Job())
    half = whole.streams[1].model_copy(update={"share": 0.5, "id": 1})
    other = half.model_copy(update={"id": 2, "legs": half.legs[::-1]})
    split = whole.model_copy(update={"streams": [whole.streams[0], half, other]})
    elements = 736 * 1000
    assert predict(network, split, 4 * elements).seconds == pytest.approx(predict(network, whole, 4 * elements).seconds)


WAITING = {("block", "agreed"): True, ("block", "expected"): False, ("fixed:1e6", "agreed"): False}


@pytest.mark.parametrize(("choice", "waits"), WAITING.items())
def test_values_wait_for_the_last_start_where_exponents_are_agreed(choice, waits):
    network = star(2, rate_bps=100e6)
    codec, exponents = choice
    made = plan(network, Job(policy="cache", codec=codec, exponents=exponents))
    alone = predict(network, made, 10**6).seconds
    late = predict(network, made, 10**6, {"w1": 2.0})
    assert late.seconds == pytest.approx(2 + alone)
    begun = {one.flow.source: one.flow.start_seconds for one in late.flows if one.flow.kind == "gradient"}
    assert begun == {"w0": 2.0 if waits else 0.0, "w1": 2.0}
    assert predict(network, made, 10**6, {"w1": 2.0}, barrier=not waits).flows != late.flows


def test_paths_do_not_cross_servers():
    nodes = [Node(name="w", kind="worker"), Node(name="a", kind="aggregator", aggregation_rate_bps=1e9),
             Node(name="b", kind="ps", aggregation_rate_bps=1e9)]  # fmt: skip
    links = [Link(id="1", source="w", target="a"), Link(id="2", source="a", target="b")]
    network = Topology(name="chain", nodes=nodes, links=links)
    with pytest.raises(PlanError, match="w does not reach b in topology chain; link them by switches"):
        predict_tree(network, {"w": "b", "b": None}, 1e6)


@pytest.mark.parametrize(("starts", "message"), [({"w9": 1.0}, "no worker w9"), ({"w0": -1.0}, "give 0 or more")])
def test_a_start_that_cannot_be_is_refused(starts, message):
    with pytest.raises(PlanError, match=message):
        predict(star(2), plan(star(2), Job()), 1000, starts)


def test_a_node_that_cannot_add_is_named():
    network = Topology(name="t", nodes=[Node(name="w", kind="worker"), Node(name="fabric", kind="switch")])
    with pytest.raises(PlanError, match="fabric of the topology adds nothing"):
        predict_tree(network, {"w": "fabric", "fabric": None}, 1e6)


def test_a_plan_of_another_topology_is_refused():
    with pytest.raises(TopologyError, match="has no node"):
        predict(xagg(), plan(star(2), Job()), 1000)
