"""Plans whose switches sum, on namespaces: what crosses each link is what the plan says, to the byte."""

import pytest
from tests.capabilities import engines

from wiresum.bench.live.run import Ranks, running
from wiresum.errors import TestbedError, TopologyError
from wiresum.plan.assignment.wiring import as_switched_plan
from wiresum.plan.job import Job
from wiresum.plan.models import equal_parts
from wiresum.plan.options import PlanOptions
from wiresum.planners import SWITCH_POLICIES, assign
from wiresum.planners.fabrics import plan_switched
from wiresum.predict.link_bytes import link_bytes
from wiresum.testbed import Testbed
from wiresum.testbed.fabric import lay_out
from wiresum.topology.generators.goat import goat
from wiresum.topology.generators.ingo import ingo
from wiresum.topology.generators.racks import racks

FRAGMENT_VALUES = 64
UNDISTURBED_S = 10.0
"""Nothing may be sent twice on a busy machine, or bytes are not those of the plan."""
LATER_S = 1.0
ATTEMPTS, NETWORKS = 4, 10
"""Where a late worker is interrupted between two packets, a result frees the slot that the second was to collide at.
The figure draws the order without. On some networks every run is interrupted, so there are several."""
IMPATIENT_S = 0.02
"""A timeout that passes while others are late."""
RATE_BPS = 200e6
SIZE = 14 + 20 + 8 + 38 + 12 + 4 * FRAGMENT_VALUES
"""Bytes of a packet of values with its headers."""
CHECK = 14 + 20 + 8 + 38 + 12 + 4 * 16
"""Bytes of the check of four workers on the wire: nine lanes, in whole blocks."""


NOTE = 14 + 20 + 8 + 38 + 64
"""Bytes of a hello or welcome: who waits for a second asks who is there. A packet of values is no multiple of it."""


def assert_crossed(bytes_seen, bytes_wanted):
    """What crossed is what was to cross, beside notes."""
    more = bytes_seen - bytes_wanted
    assert more >= 0, f"{bytes_seen} instead of {bytes_wanted}"
    assert more % NOTE == 0, f"{bytes_seen} instead of {bytes_wanted}"


def assert_predicted(plan, elements, sent):
    for link, wanted in link_bytes(plan, elements).items():
        for one, other in zip(sent[link], wanted, strict=True):
            assert_crossed(one, other)


def switched(
    topology,
    planner,
    size,
    policy=None,
    *,
    parts=1,
    slots=None,
    values=None,
    window=16,
    timeout_s=UNDISTURBED_S,
    engine="udp",
):
    sub_models = equal_parts("part", size, parts)
    job = Job(gradient_bytes=size, values_per_packet=values, window=window, sub_models=sub_models)
    answer = assign(topology.with_addresses(), job, PlanOptions(), planner)
    plan = as_switched_plan(
        planner,
        answer,
        PlanOptions(),
        policy or SWITCH_POLICIES[planner],
        timeout_s=timeout_s,
        slots=slots,
        engine=engine,
    )
    return plan, job.mtu_bytes


def figure_2(name, planner, policy, slots, engine):
    """Bytes on each link for three fragments, if w0 and w2 are earlier than the others (GOAT, Fig. 2b)."""
    fragment = 4 * FRAGMENT_VALUES
    topology = goat(2, fragment, RATE_BPS)
    plan, mtu = switched(
        topology, planner, 3 * fragment, policy, parts=3, slots=slots, values=FRAGMENT_VALUES, engine=engine
    )
    for _ in range(NETWORKS):
        with running(topology, plan, mtu, name) as ranks:
            runs = (ranks.sum(3 * FRAGMENT_VALUES, [[0, 2], [1, 3]], LATER_S) for _ in range(ATTEMPTS))
            drawn = next((once for once in runs if once.repetitions == 0), None)
        if drawn:
            return plan, drawn.link_bytes
    raise AssertionError(f"something was sent twice in each of {ATTEMPTS} runs on each of {NETWORKS} networks")


def upward(sent):
    """Bytes that switches sent up: on their links to each other and to the server."""
    return sum(sent["S1-S2"]) + sent["S1-S3"][0] + sent["S2-S3"][0] + sent["ps-S3"][1]


@pytest.mark.parametrize("engine", engines("udp", "xdp"))
def test_goat_figure_2_atp_sends_seven_fragments_to_the_server_and_seventeen_in_all(namespaces, name, engine):
    _, sent = figure_2(name, "atp", "hash", 1, engine)
    # Four checks go to the server, through two switches each.
    assert_crossed(sent["ps-S3"][1], 7 * SIZE + 4 * CHECK)
    assert_crossed(upward(sent), 17 * SIZE + 8 * CHECK)


@pytest.mark.parametrize("engine", engines("udp", "xdp"))
def test_goat_figure_2_collaborating_switches_send_three_and_thirteen(namespaces, name, engine):
    plan, sent = figure_2(name, "goat", None, None, engine)
    assert_crossed(sent["ps-S3"][1], 3 * SIZE + 4 * CHECK)
    # The link of the leaves carries one result each way as well.
    assert_crossed(upward(sent), (13 + 2) * SIZE + 8 * CHECK)
    assert_predicted(plan, 3 * FRAGMENT_VALUES, sent)


@pytest.mark.parametrize(
    "case",
    [(goat(4, rate_bps=RATE_BPS), "goat", 3), (ingo("ring", RATE_BPS), "ingo", 1), (ingo("mesh", RATE_BPS), "ingo", 1)],
    ids=["goat", "ring", "mesh"],
)
@pytest.mark.parametrize("engine", engines("udp", "xdp"))
def test_every_link_carries_what_the_plan_predicts(namespaces, name, case, engine):
    topology, planner, parts = case
    elements = 100_003
    plan, mtu = switched(topology, planner, 4 * elements, parts=parts, engine=engine)
    with running(topology, plan, mtu, name) as ranks:
        for _ in range(2):
            once = ranks.sum(elements)
            assert once.repetitions == 0
            assert_predicted(plan, elements, once.link_bytes)


def test_a_plan_of_trees_runs_over_its_ways_and_ends_at_a_switch(namespaces, name):
    """`joint` on InGo's ring: sums of sums at switches, results from the topmost, and nothing at the server."""
    elements = 100_003
    topology = ingo("ring", RATE_BPS)
    job = Job(gradient_bytes=4 * elements, window=16)
    plan = plan_switched(topology.with_addresses(), job, PlanOptions(), "joint")
    assert plan.streams[0].policy == "pool"
    calm = plan.fabric.model_copy(update={"timeout_s": UNDISTURBED_S})
    plan = plan.model_copy(update={"fabric": calm})
    with running(topology, plan, job.mtu_bytes, name) as ranks:
        for _ in range(2):
            once = ranks.sum(elements)
            assert once.repetitions == 0
            assert_predicted(plan, elements, once.link_bytes)
    assert link_bytes(plan, elements)["ps-S1"] == (0, 0)


def test_racks_refuse_who_is_early_and_keep_sums_for_those_who_ask_again(namespaces, name):
    topology = racks(2, hosts_per_rack=2, rate_bps=RATE_BPS)
    elements = 16 * FRAGMENT_VALUES
    plan, mtu = switched(
        topology, "p4inc-aoi", 4 * elements, slots=4, values=FRAGMENT_VALUES, timeout_s=IMPATIENT_S
    )  # fmt: skip
    with Testbed(topology, plan, name=name, mtu_bytes=mtu, loopback=False) as bed:
        with Ranks(bed) as ranks:
            # The first rack's sums are complete, and wait at the server for the second's: its workers ask again.
            ranks.sum(elements, [[0, 1], [2, 3]], LATER_S)
        counters = bed.deployment.stop()
    of = {node: counted["verdicts"] for node, counted in counters.items()}
    # A window of sixteen meets in four slots: what comes before a slot's older fragment is done is refused, marked.
    assert of["T1"]["refused"] > 0
    assert of["T2"]["refused"] > 0
    assert of["T1"]["reforwarded"] > 0
    assert of["ps"]["completed"] >= elements // FRAGMENT_VALUES


LOSS = 0.01


@pytest.mark.parametrize(("planner", "policy"), [("p4inc-aoi", "segment"), ("esa", "preempt")])
@pytest.mark.parametrize("engine", engines("udp", "xdp"))
def test_sums_are_exact_where_every_link_loses_packets(namespaces, name, planner, policy, engine):
    """Copies that are kept, evicted sums, repetitions: every rank checks every value."""
    topology = racks(2, hosts_per_rack=2, rate_bps=RATE_BPS) if policy == "segment" else goat(2, rate_bps=RATE_BPS)
    elements = 100_003
    plan, mtu = switched(topology, planner, 4 * elements, policy, timeout_s=IMPATIENT_S, engine=engine)
    with Testbed(topology.with_loss(LOSS), plan, name=name, mtu_bytes=mtu, loopback=False) as bed:
        with Ranks(bed) as ranks:
            repetitions = sum(ranks.sum(elements).repetitions for _ in range(3))
        losses = bed.link_losses()
    lost = {link: sum(direction.lost for direction in both) for link, both in losses.items()}
    assert repetitions > 0
    assert sum(lost.values()) > 0
    # Links between switches lose packets too, although both their ends may sum in the kernel.
    kinds = {node.name: node.kind for node in topology.nodes}
    between = [link.id for link in topology.links if kinds[link.source] == kinds[link.target] == "switch"]
    assert sum(lost[link] for link in between) > 0


def test_a_testbed_for_other_links_is_refused():
    plan, mtu = switched(ingo("ring", RATE_BPS), "ingo", 4096)
    with pytest.raises(TopologyError, match="other links"):
        lay_out("x", ingo("mesh", RATE_BPS), plan.fabric, mtu)
    with pytest.raises(TestbedError, match="in namespaces"):
        Testbed(ingo("ring", RATE_BPS), plan, loopback=True)


def test_a_link_whose_addresses_are_of_two_networks_is_named():
    topology = ingo("ring", RATE_BPS)
    plan, mtu = switched(topology, "ingo", 4096)
    first, *others = plan.fabric.links
    ends = [first.ends[0], first.ends[1].model_copy(update={"address": "10.200.0.1:9000"})]
    fabric = plan.fabric.model_copy(update={"links": [first.model_copy(update={"ends": ends}), *others]})
    with pytest.raises(TopologyError, match=rf"fabric\.links\.{first.id}: .* plan again"):
        lay_out("x", topology, fabric, mtu)


@pytest.mark.parametrize("worker_racks", [1, 2])
def test_racks_sum_in_their_switches_and_only_several_need_the_server(namespaces, name, worker_racks):
    topology = racks(worker_racks, hosts_per_rack=2, rate_bps=RATE_BPS)
    elements = 20_000
    plan, mtu = switched(topology, "p4inc-aoi", 4 * elements, values=FRAGMENT_VALUES)
    with running(topology, plan, mtu, name) as ranks:
        once = ranks.sum(elements)
    # With a slot for each place of the window nothing comes too early, so nothing is refused or sent again.
    assert once.repetitions == 0
    assert_predicted(plan, elements, once.link_bytes)
    into_server = max(bytes_ for link, both in once.link_bytes.items() if link.startswith("ps-") for bytes_ in both)
    assert (into_server > 0) == (worker_racks > 1)
