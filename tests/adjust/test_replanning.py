"""Networks that lose links, nodes or memory: what can stay stays, what cannot moves, and the answer holds."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wiresum.adjust import adjust, keep
from wiresum.adjust.bottleneck import relieved_seconds
from wiresum.errors import PlanError
from wiresum.plan.assignment import Instance
from wiresum.plan.assignment.routes import is_path
from wiresum.plan.job import Job
from wiresum.plan.models import equal_parts
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import parents_of
from wiresum.plan.ways import links_of
from wiresum.planners import assign, plan
from wiresum.predict import predict
from wiresum.predict.cost import cost_of
from wiresum.topology.generators.fat_tree import fat_tree
from wiresum.topology.generators.ingo import ingo
from wiresum.topology.generators.leaf_spine import leaf_spine
from wiresum.topology.generators.servers import servers
from wiresum.topology.graph import UNREACHABLE
from wiresum.topology.model import Link, Node, Topology
from wiresum.topology.paths import RoutedTopology

JOB = Job(sub_models=equal_parts("m", 12_000_000, 12))


def without(topology: Topology, *gone: str) -> Topology:
    """The topology without these links, nodes, and the links of these nodes."""
    nodes = [node for node in topology.nodes if node.name not in gone]
    links = [link for link in topology.links if not {link.id, link.source, link.target} & set(gone)]
    return topology.model_copy(update={"nodes": nodes, "links": links})


def dumb(topology: Topology, *names: str) -> Topology:
    """The topology with switches that only forward."""
    rest = {"aggregation_rate_bps": 0.0}
    nodes = [node.model_copy(update=rest) if node.name in names else node for node in topology.nodes]
    return topology.model_copy(update={"nodes": nodes})


def network(seed: int) -> Topology:
    memory = Random(seed).choice([3_000_000, 6_000_000, 20_000_000])
    return leaf_spine(leaves=4, spines=3, hosts_per_leaf=3, programmable=0.7, memory_bytes=memory, seed=seed)


@pytest.mark.parametrize("planner", ["goat", "atp", "switchml", "ingo", "geryon"])
def test_nothing_moves_where_nothing_changed(planner):
    before = assign(ingo("ring"), JOB, planner=planner)
    after = keep(before, Instance.of(ingo("ring"), JOB))
    assert (after.moved.any(), after.moved_sums) == (False, 0)
    assert cost_of(after.assignment).to_json() == cost_of(before).to_json()


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.sampled_from(["goat", "atp", "switchml"]), st.booleans())
def test_only_what_lost_its_place_moves(seed, planner, is_link):
    topology = network(seed)
    before, random = assign(topology, JOB, planner=planner), Random(seed)
    between = [link.id for link in topology.links if link.source.startswith("leaf") and link.target.startswith("spine")]
    summing = [node.name for node in topology.summing_nodes if node.kind == "switch"]
    now = without(topology, random.choice(between)) if is_link else dumb(topology, random.choice(summing))
    instance = Instance.of(now, JOB)
    after = keep(before, instance)
    names = np.array([before.instance.name(one) for one in range(len(before.instance.aggregators))])
    there = {instance.name(one): one for one in range(len(instance.aggregators))}
    for worker, sub_model in np.ndindex(before.target.shape):
        was = there.get(names[before.target[worker, sub_model]])
        stays = was is not None and instance.hops[worker, was] != UNREACHABLE
        assert after.moved[worker, sub_model] != stays
        assert not stays or after.assignment.target[worker, sub_model] == was


def test_a_kept_answer_is_between_a_new_one_and_no_sums_for_what_moved():
    topology = network(3)
    before = assign(topology, JOB, planner="goat")
    fullest = before.instance.name(int(before.memory_bytes.argmax()))
    now = dumb(topology, fullest)
    after = keep(before, Instance.of(now, JOB)).assignment
    assert after.solution.value == pytest.approx(cost_of(after, predict=False).total_bytes)
    assert after.solution.value >= assign(now, JOB, planner="goat").solution.bound * (1 - 1e-9)
    lost = before.target == int(before.memory_bytes.argmax())
    hops = before.instance.hops
    direct = (lost * (hops[:, [0]] - hops.min(axis=1, keepdims=True)) * before.instance.sizes).sum()
    assert after.solution.value <= before.solution.value + direct + lost.any(axis=0) @ before.instance.sizes * 4


def test_with_less_memory_some_sub_models_leave():
    topology = network(5)
    before = assign(topology, JOB, planner="goat")
    fullest = int(before.memory_bytes.argmax())
    half = {"memory_bytes": int(before.memory_bytes[fullest]) // 2}
    nodes = [
        node.model_copy(update=half) if node.name == before.instance.name(fullest) else node for node in topology.nodes
    ]
    after = keep(before, Instance.of(topology.model_copy(update={"nodes": nodes}), JOB))
    assert 0 < after.moved_share < 1
    assert after.assignment.memory_bytes[fullest] <= half["memory_bytes"]
    assert (before.target[after.moved] == fullest).all()


def test_paths_round_a_lost_link_are_others_and_the_rest_stay():
    topology = ingo("mesh")
    before = assign(topology, JOB, planner="ingo")
    used = {arc // 2 for path in before.routes.of_aggregators.values() for arc in path}
    links = [topology.links[index] for index in sorted(used)]
    between = next(link for link in links if "ps" not in {link.source, link.target})
    now = without(topology, between.id)
    after = keep(before, Instance.of(now, JOB))
    assert after.moved_sums >= 1
    graph, routes = after.assignment.instance.graph, after.assignment.routes
    for aggregator, path in routes.of_aggregators.items():
        node = int(after.assignment.instance.aggregators[aggregator])
        assert is_path(graph, path, node, after.assignment.instance.server)
    ids = [[link.id for link in topology.links], [link.id for link in now.links]]
    for old, new in zip(before.routes.of_workers, routes.of_workers, strict=True):
        if between.id not in {ids[0][arc // 2] for arc in old}:
            assert [ids[0][arc // 2] for arc in old] == [ids[1][arc // 2] for arc in new]


def test_other_workers_or_models_need_a_new_plan():
    before = assign(network(1), JOB, planner="atp")
    with pytest.raises(PlanError, match=r"the workers are not those of the plan \(w0\)"):
        keep(before, Instance.of(without(network(1), "w0"), JOB))
    with pytest.raises(PlanError, match="the sub-models are not those of the plan"):
        keep(before, Instance.of(network(1), Job(sub_models=equal_parts("m", 12_000_000, 11))))


def test_a_large_network_is_kept_with_few_moves():
    topology = fat_tree(8, 6)
    job = Job(sub_models=equal_parts("m", 221_000_000, 110))
    before = assign(topology, job, PlanOptions(time_limit_s=20), "goat")
    gone = before.instance.name(int(before.memory_bytes.argmax()))
    after = keep(before, Instance.of(dumb(topology, gone), job))
    assert 0 < after.moved_share < 0.3
    assert after.assignment.solution.value <= 1.05 * before.solution.value * 16 / 15


def tree(made):
    return parents_of(made, made.streams[1])


def two_levels() -> Topology:
    """Two racks below a switch that sums, with a second one beside it."""
    rate = 1e9
    nodes = [Node(name=name, kind="switch", aggregation_rate_bps=1e12) for name in ("r0", "r1", "top", "spare")]
    nodes += [Node(name=f"w{i}", kind="worker") for i in range(6)]
    ends = [("r0", "top"), ("r1", "top"), ("r0", "spare"), ("r1", "spare")]
    ends += [(f"w{i}", f"r{i // 3}") for i in range(6)]
    links = [Link(id=f"{a}-{b}", source=a, target=b, bandwidth_bps=rate) for a, b in ends]
    sums_at = {"r0": "top", "r1": "top"}
    nodes = [node.model_copy(update={"sums_at": sums_at.get(node.name)}) for node in nodes]
    nodes = [node.model_copy(update={"aggregation_rate_bps": 0.0}) if node.name == "spare" else node for node in nodes]
    return Topology(name="racks", nodes=nodes, links=links).with_addresses()


def test_a_root_that_is_gone_is_replaced_and_its_children_stay_together():
    before = plan(two_levels(), Job())
    assert tree(before)["r0"] == "top"
    after = adjust(before, without(two_levels(), "top"))
    assert after.reasons[0] == "top is gone"
    assert set(tree(after.plan)) == set(tree(before)) - {"top"}
    assert {tree(after.plan)["r0"], tree(after.plan)["r1"]} in ({None, "r0"}, {None, "r1"})
    assert all(tree(after.plan)[f"w{i}"] == f"r{i // 3}" for i in range(6))


def test_a_switch_that_sums_no_more_leaves_its_children_to_others():
    before = plan(two_levels(), Job())
    after = adjust(before, dumb(two_levels(), "r1"))
    assert after.reasons[0] == "r1 does not sum any more"
    assert "r1" not in tree(after.plan)
    assert {tree(after.plan)[f"w{i}"] for i in (3, 4, 5)} <= {"top", "r0"}
    assert all(tree(after.plan)[f"w{i}"] == "r0" for i in range(3))


def test_a_parent_out_of_reach_is_left():
    """r0's links to both switches above are gone, so its rack can only be summed there: no tree is left."""
    now = without(two_levels(), "r0-top", "r0-spare")
    with pytest.raises(PlanError, match="r0 does not reach top any more: no node that sums is left for its children"):
        adjust(plan(two_levels(), Job()), now)


def test_a_worker_that_is_gone_is_named():
    with pytest.raises(PlanError, match="worker w5 is not in topology racks; plan anew"):
        adjust(plan(two_levels(), Job()), without(two_levels(), "w5"))


@settings(max_examples=10)
@given(st.integers(0, 2**32), st.sampled_from(["switchml", "forest", "xagg", "joint"]), st.booleans())
def test_a_mended_plan_has_a_way_for_every_edge(seed, planner, is_link):
    random = Random(seed)
    topology = leaf_spine(3, 2, 2, programmable=0.8, memory_bytes=None, seed=seed).with_addresses()
    before = plan(topology, JOB, PlanOptions(time_limit_s=30), planner)
    used = [node.name for node in before.nodes if topology.node(node.name).kind == "switch"]
    between = [link.id for link in topology.links if link.source.startswith("leaf") and link.target.startswith("spine")]
    now = without(topology, random.choice(between)) if is_link or not used else dumb(topology, random.choice(used))
    after = adjust(before, now).plan
    reach = RoutedTopology(now)
    for stream in after.streams:
        for child, parent in parents_of(after, stream).items():
            assert parent is None or (reach.reaches(child, parent) and now.node(parent).sums)


def test_ways_stay_while_their_links_do():
    topology = ingo("mesh").with_addresses()
    made = plan(topology, JOB, PlanOptions(), "ingo")
    assert adjust(made, topology, {}).plan == made
    values = made.streams[1]
    links = links_of(made, values)
    lost = next(link for way in links.values() for link in way if link.startswith("S"))
    changed = adjust(made, without(topology, lost), {})
    left = links_of(changed.plan, changed.plan.streams[1])
    assert left == {edge: way for edge, way in links.items() if lost not in way}
    assert any("the way of" in reason for reason in changed.reasons)
    assert parents_of(changed.plan, changed.plan.streams[1]) == parents_of(made, values)
    with pytest.raises(PlanError, match="which the topology does not have"):
        predict(without(topology, lost), made, 1_000_000)


def test_no_plan_without_a_server_is_quicker_than_what_the_rest_needs():
    topology = servers(4, 3)
    made = plan(topology, Job(), planner="forest")
    least = relieved_seconds(made, topology, 100_000_000)
    assert set(least) == {"s0", "s1", "s2"}
    # Two of three trees are left; every server's link carries a third of four workers' gradients.
    assert all(seconds == pytest.approx(100e6 * 8 / 200e6 * 4 / 3, rel=0.04) for seconds in least.values())
