"""Plans with a fabric: made from assignments, checked, and checked as the data plane does."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.assignment.wiring import as_switched_plan, with_engine
from wiresum.plan.fabric import MAX_SWITCHED_VALUES
from wiresum.plan.job import Job
from wiresum.plan.models import equal_parts
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import parents_of
from wiresum.plan.ways import links_of
from wiresum.planners import SWITCH_POLICIES, assign
from wiresum.planners.fabrics import plan_switched
from wiresum.predict import predict
from wiresum.predict.link_bytes import link_bytes, sending_rate_bps
from wiresum.topology.generators.goat import goat
from wiresum.topology.generators.ingo import ingo
from wiresum.topology.generators.leaf_spine import leaf_spine
from wiresum.topology.generators.racks import racks
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Link, Node, Topology
from wiresum.wire import POLICIES

FRAGMENT_VALUES = 64
UNEVEN = leaf_spine(4, 3, 3, programmable=0.5)
"""Where the network's own ways are worse than chosen ones."""


def switched(topology, planner, policy=None, parts=1, *, workers=None, values=FRAGMENT_VALUES, **options):
    """A small job's plan."""
    size = 4 * values * parts
    job = Job(
        secret="0" * 64, gradient_bytes=size, values_per_packet=values, window=16, workers=workers,
        sub_models=equal_parts("part", size, parts),
    )  # fmt: skip
    answer = assign(topology.with_addresses(), job, PlanOptions(), planner)
    return as_switched_plan(planner, answer, PlanOptions(), policy or SWITCH_POLICIES[planner], **options)


def hash_plan():
    return switched(goat(2, 4 * FRAGMENT_VALUES), "atp", "hash", parts=3, slots=1)


def exclusive_plan():
    return switched(goat(2, 4 * FRAGMENT_VALUES), "goat", parts=3)


def content():
    return json.loads(exclusive_plan().to_json())


def test_a_plan_names_every_link_and_way():
    plan = exclusive_plan()
    topology = goat(2)
    assert [link.id for link in plan.fabric.links] == [link.id for link in topology.links]
    assert {node.name for node in plan.nodes} == {node.name for node in topology.nodes if node.kind != "worker"}
    assert all(leg.links for stream in plan.streams for leg in stream.legs)
    addresses = [end.address for link in plan.fabric.links for end in link.ends]
    assert len(set(addresses)) == len(addresses)


def test_jobs_get_a_codec_and_packets_that_switches_can_carry():
    answer = assign(ingo("star").with_addresses(), Job(), PlanOptions(), "ingo")
    plan = as_switched_plan("ingo", answer, PlanOptions())
    assert plan.job.codec.startswith("fixed:")
    assert plan.job.values_per_packet == MAX_SWITCHED_VALUES
    assert {stream.policy for stream in plan.streams} == {"register"}


@pytest.mark.parametrize("policy", ["pool", "cache"])
def test_without_a_server_sums_end_at_the_switch_where_all_ways_have_met(policy):
    plan = switched(goat(2), "atp", policy, parts=40)
    server, top = (plan.nodes[[node.name for node in plan.nodes].index(name)].id for name in ("ps", "S3"))
    sites = {link.id: {end.site for end in link.ends} for link in plan.fabric.links}
    for stream in plan.streams:
        assert not any(("node", server) in sites[link] for leg in stream.legs for link in leg.links)
        assert top in [place.node for place in stream.places]
    assert server not in plan.derived().switches
    values = plan.streams[1]
    assert len(values.places) == 3
    # A round's fragments, or a window's.
    assert {place.slots for place in values.places} == {64 if policy == "cache" else 16}
    assert native_accepts(plan.to_json())


def test_pool_keeps_to_the_slots_that_it_is_given():
    plan = switched(goat(2), "atp", "pool", parts=40, slots=11)
    assert {place.slots for stream in plan.streams for place in stream.places} == {8}
    assert {stream.window for stream in plan.streams} == {8}


def test_without_a_server_ways_have_to_meet_at_a_switch():
    def host(name, kind, rate=0.0):
        return Node(name=name, kind=kind, aggregation_rate_bps=rate)

    nodes = [host("a", "worker"), host("b", "worker"), host("ps", "ps", 1.0)]
    nodes += [host("left", "switch", 1.0), host("right", "switch", 1.0)]
    pairs = [("a", "left"), ("b", "right"), ("left", "ps"), ("right", "ps")]
    links = [Link(id=f"{one}-{other}", source=one, target=other, bandwidth_bps=1e9) for one, other in pairs]
    split = Topology(name="split", nodes=nodes, links=links)
    with pytest.raises(PlanError, match="share no switch; link ps to one switch that sums"):
        switched(split, "ps", "pool")


def test_the_kernel_runs_switches_and_no_server():
    plan = switched(goat(2), "atp", "hash", engine="xdp")
    assert {node.name: node.engine for node in plan.nodes} == {"S1": "xdp", "S2": "xdp", "S3": "xdp", "ps": "udp"}
    assert with_engine(plan, "udp").nodes == switched(goat(2), "atp", "hash").nodes
    assert {node.engine for node in switched(goat(2), "atp", "cache", engine="xdp").nodes if node.name != "ps"} == {
        "xdp"
    }


@pytest.mark.parametrize(
    "topology", [ingo("ring"), goat(2), leaf_spine(4, 3, 3, programmable=0.5)], ids=lambda one: one.name
)
def test_trees_of_any_planner_are_carried_out(topology):
    """Over the ways that the plan names: the busiest link is that of its value, headers apart."""
    topology, job = topology.with_addresses(), Job(gradient_bytes=8_000_000)
    rates = {link.id: (link.bandwidth_bps, link.bandwidth_bps) for link in topology.links}
    for policy in (None, "register"):
        plan = plan_switched(topology, job, PlanOptions(), "joint", policy)
        assert python_accepts(plan.to_json())
        rate_bps = sending_rate_bps(plan, rates, job.gradient_bytes // 4)
        # Headers lower it; a result is sent once for all behind a link, where the value counts one for each child.
        assert rate_bps > 0.96 * 8 * job.gradient_bytes / plan.solution.value
        assert predict(topology, plan, job.gradient_bytes).seconds > plan.solution.value
        assert (plan.streams[0].policy == "pool") == all(stream.slots for stream in plan.streams)


def test_hosts_that_sum_below_others_are_no_switches():
    with pytest.raises(PlanError, match="is no switch"):
        plan_switched(xagg().with_addresses(), Job(), PlanOptions(), "xagg")


def test_a_fabrics_ways_are_the_plans():
    plan = exclusive_plan()
    for stream in plan.streams:
        named = links_of(plan, stream)
        assert set(named) == {edge for edge in parents_of(plan, stream).items() if edge[1] is not None}


def ends(plan):
    """Over which links each stream's ways end."""
    return {(stream.id, leg.links[-1]) for stream in plan.streams for leg in stream.legs if leg.parent == stream.root}


def test_a_job_of_one_rack_ends_at_its_switch_and_one_of_several_at_the_server():
    local, wide = switched(racks(1), "p4inc-aoi"), switched(racks(2), "p4inc-aoi")
    assert local.streams[0].policy == wide.streams[0].policy == "segment"
    # Four checks and four streams of values, each over its worker's link alone.
    assert {link for _, link in ends(local)} == {"w0-T1", "w1-T1", "w2-T1", "w3-T1"}
    assert {link for _, link in ends(wide)} == {"ps-T3"}


def test_policies_without_a_server_end_at_the_topmost_switch():
    plan = switched(racks(2), "switchml")
    assert plan.streams[0].policy == "pool"
    (top,) = {place.node for place in plan.streams[0].places}
    assert plan.node(top).name == "T1"
    slots = [place.slots for stream in plan.streams for place in stream.places]
    assert all(slot & (slot - 1) == 0 for slot in slots)


CROWD = leaf_spine(2, 2, 35, programmable=1.0)
"""A fabric of two cohorts: 69 workers and a server."""
CROWD_VALUES = 144
"""Values of a packet that holds the check of 69 workers."""


@pytest.mark.parametrize("policy", [*POLICIES])
def test_sums_of_several_cohorts_meet_at_a_server_under_every_policy(policy):
    if not POLICIES[policy].is_exact:
        return
    planner = "goat" if POLICIES[policy].is_addressed else "atp"
    plan = switched(CROWD, planner, policy, parts=3, values=CROWD_VALUES)
    assert native_accepts(plan.to_json())
    server = next(node.id for node in plan.nodes if node.name == "ps")
    assert {stream.root for stream in plan.streams} == {server}
    # Each cohort has slots of its own at a switch that sums both, unless slots are everyone's.
    taken = {memory.node: memory.slots for memory in plan.fabric.memory}
    for place in plan.derived().streams[1].places:
        ours = [one.places for one in plan.streams if place.node in [at.node for at in one.places if at.slots]]
        slots = [at.slots for places in ours for at in places if at.node == place.node]
        cohorts = len({rank // 64 for rank in place.members})
        assert place.node == server or taken[place.node] >= max(slots) * (
            1 if POLICIES[policy].shares_slots else cohorts
        )


@pytest.mark.parametrize("planner", SWITCH_POLICIES)
def test_every_planner_of_switches_plans_for_several_cohorts(planner):
    plan = switched(CROWD, planner, parts=3, values=CROWD_VALUES)
    assert native_accepts(plan.to_json())
    assert len(plan.workers) == 69


def test_a_switch_does_not_end_the_sums_of_several_cohorts():
    plan = json.loads(switched(CROWD, "atp", "pool", parts=3, values=CROWD_VALUES).to_json())
    plan["streams"][0]["places"][-1]["slots"] = 1
    with pytest.raises(PlanError, match="the root has `slots`, which tell 64 workers apart"):
        AggregationPlan.parse(json.dumps(plan))


SIZE = 14 + 20 + 8 + 38 + 12 + 4 * FRAGMENT_VALUES
"""Bytes of a packet of values with its headers."""
CHECK = 14 + 20 + 8 + 38 + 12 + 4 * 16
"""Bytes of the check of four workers on the wire: nine lanes, in whole blocks."""


def test_goat_figure_2_sends_three_fragments_to_the_server_and_thirteen_from_switches():
    sent = link_bytes(exclusive_plan(), 3 * FRAGMENT_VALUES)
    # Checks go to the server alone: two over each leaf's link, four over the server's.
    assert sent["ps-S3"] == (3 * SIZE + CHECK, 3 * SIZE + 4 * CHECK)
    assert sum(sent["S1-S2"]) + sent["S1-S3"][0] + sent["S2-S3"][0] - 4 * CHECK >= 10 * SIZE
    for worker in ("w0-S1", "w1-S1", "w2-S2", "w3-S2"):
        assert sent[worker] == (3 * SIZE + CHECK, 3 * SIZE + CHECK)


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("job", "values_per_packet"), 736, "two headers"),
        (("job",), content()["job"] | {"lanes": "auto", "codec": "block"}, "job.lanes: `auto` needs servers"),
        (("streams", 1, "policy"), "hash", "same policy"),
        (("streams", 0, "policy"), "pool", "the root needs `slots`"),
        (("fabric", "timeout_s"), 0.0, "fabric.timeout_s"),
        (("fabric", "links", 0, "ends", 0, "at"), {"node": 99}, r"fabric.links\[0\].ends: one is not"),
        (("fabric", "links", 0, "ends", 0, "address"), "nowhere", "must be an IP address"),
        (("fabric", "memory", 0, "node"), 99, r"fabric.memory\[0\].node: is not in"),
        (("fabric", "links", 1, "id"), "w0-S1", r"fabric.links: two have the same id"),
        (("streams", 1, "places", 0, "base"), 5, "has 1 slots"),
        (("streams", 1, "places", 0, "slots"), None, "is not the root, and has no `slots`"),
        (("streams", 1, "places", -1, "slots"), 1, "this policy has the sum at a server"),
        (("streams", 1, "places"), [], "has no place: give it one"),
        (("streams", 1, "legs", 0, "links"), [], "name every link"),
        (("streams", 1, "legs", 0, "links"), ["w9-S1"], "name every link"),
        (("streams", 1, "legs", 0, "links"), ["w0-S1", "S1-S2", "S1-S2"], "a link twice"),
        (("streams", 1, "legs", 0, "parent"), 99, "ends at node 99"),
    ],
)
def test_every_wrong_field_is_named(path, value, problem):
    changed = content()
    *way, last = path
    place = changed
    for part in way:
        place = place[part]
    place[last] = value
    with pytest.raises(PlanError, match=problem):
        AggregationPlan.parse(json.dumps(changed))
    assert not native_accepts(json.dumps(changed))


@pytest.mark.parametrize(("field", "value"), [("codec", "block"), ("lanes", "int16-le")])
def test_switches_agree_on_exponents_and_add_narrow_lanes(field, value):
    changed = content()
    changed["job"][field] = value
    assert AggregationPlan.parse(json.dumps(changed))
    assert native_accepts(json.dumps(changed))


def native_accepts(text):
    from wiresum import _native

    return _native.validate_plan(text) is None


def python_accepts(text):
    try:
        AggregationPlan.parse(text)
    except PlanError:
        return False
    return True


PLANS = [json.loads(plan.to_json()) for plan in (exclusive_plan(), hash_plan(), switched(ingo("mesh"), "ingo"))]


@pytest.mark.parametrize("plan", PLANS, ids=["exclusive", "hash", "register"])
def test_good_plans_are_good_for_the_data_plane(plan):
    assert python_accepts(json.dumps(plan))
    assert native_accepts(json.dumps(plan))


def places_of(value, way=()):
    """Every number and list in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if isinstance(inner, dict | list):
            yield from places_of(inner, (*way, key))
        if isinstance(inner, int | list):
            yield (*way, key)


@settings(max_examples=150)
@given(st.data())
def test_both_validators_agree_on_changed_fabrics(data):
    plan = copy.deepcopy(data.draw(st.sampled_from(PLANS)))
    part = {name: plan[name] for name in ("streams", "fabric")}
    for way in data.draw(st.lists(st.sampled_from(list(places_of(part))), min_size=1, max_size=2)):
        place = plan
        try:
            for key in way[:-1]:
                place = place[key]
            old = place[way[-1]]
        except (KeyError, IndexError, TypeError):
            continue
        if isinstance(old, list):
            place[way[-1]] = data.draw(st.sampled_from([old[:-1], old[1:], old[::-1], old + old[:1]]))
        elif isinstance(old, int):
            place[way[-1]] = data.draw(st.integers(0, 8))
    text = json.dumps(plan)
    assert python_accepts(text) == native_accepts(text), text
