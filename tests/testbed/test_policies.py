"""Every policy of switches in namespaces, under PyTorch, with the switches in user space and in the kernel.

One testbed and one process for each rank serve all of them: starting PyTorch takes longer than all sums.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.capabilities import best_engine, engines
from tests.testbed.groups import PATIENCE_S, Ranks

from wiresum.plan.aggregation_plan import RoundCount, Rounds
from wiresum.plan.assignment.wiring import as_switched_plan
from wiresum.plan.job import Job
from wiresum.plan.models import equal_parts
from wiresum.plan.options import PlanOptions
from wiresum.planners import assign
from wiresum.testbed import Testbed
from wiresum.testbed.namespaces import run_tool
from wiresum.topology.generators.goat import goat

TOPOLOGY = goat(2, rate_bps=500e6)
SWITCHES = ("S1", "S2", "S3")
ELEMENTS = 20_011
MANY_ELEMENTS = 1_000_000
"""A round of them takes a tenth of a second at least."""
SUMS_BEFORE = 200
"""Some windows, and a small part of a round of many elements."""
KILLS = 5
"""Attempts to kill in mid-round: on a busy machine a round may end before the one who kills has a turn."""
QUOTA_BYTES_PER_S = 200_000
"""Three collectives are more than the burst that a quota allows."""
MOST_MISSED = 4
"""Rounds in a row that go on without the same worker."""
SHORT_S = 3.0
"""For one that cannot come."""
PLANNERS = {
    "hash": "atp", "preempt": "esa", "exclusive": "goat", "register": "goat", "segment": "atp", "pool": "atp",
    "cache": "atp",
}  # fmt: skip


def switched(policy, engine, slots=None, job_id=1):
    size = 4 * ELEMENTS
    job = Job(id=job_id, gradient_bytes=size, sub_models=equal_parts("part", size, 2), window=16)
    answer = assign(TOPOLOGY.with_addresses(), job, PlanOptions(), PLANNERS[policy])
    return as_switched_plan(PLANNERS[policy], answer, PlanOptions(), policy, slots=slots, engine=engine)


@pytest.fixture(scope="module")
def network(namespaces):
    engine = best_engine()
    plan = switched("hash", engine)
    with Testbed(TOPOLOGY, plan, mtu_bytes=Job().mtu_bytes, loopback=False) as bed, Ranks(bed, ELEMENTS) as ranks:
        yield ranks


@pytest.mark.parametrize("policy", PLANNERS)
@pytest.mark.parametrize("engine", engines("udp", "xdp"))
def test_every_policy_sums_under_pytorch(network, policy, engine):
    network.join(switched(policy, engine))
    for _ in range(2):
        network.sum_rightly()
    counters = network.leave()
    at_switches = [counters[name] for name in SWITCHES]
    assert {node["engine"] for node in at_switches} == {engine}
    summed = sum(node["verdicts"][verdict] for node in at_switches for verdict in ("forwarded", "completed"))
    through_process = [node["control"]["through_process"] for node in at_switches]
    assert summed > 0, "switches summed"
    if engine == "xdp":
        assert through_process == [0] * len(SWITCHES), "all of it in the kernel"
    else:
        assert min(through_process) > 0


@pytest.mark.parametrize(
    ("policy", "lanes", "exponents"),
    [
        ("pool", "int32-le", "agreed"),
        ("hash", "int16-be", "agreed"),
        ("segment", "int16-le", "agreed"),
        ("exclusive", "int32-le", "expected"),
        ("preempt", "int32-be", "expected"),
    ],
)
@pytest.mark.parametrize("engine", engines("udp", "xdp"))
def test_block_exponents_and_narrow_lanes_sum_under_pytorch(network, policy, lanes, exponents, engine):
    """Maxima at switches (`pool`) and at the server, sums of both widths, values that flow before the agreement."""
    plan = switched(policy, engine)
    job = plan.job.model_copy(update={"codec": "block", "lanes": lanes, "exponents": exponents})
    network.join(plan.model_copy(update={"job": job}))
    # What is expected is learned from the collective before.
    for _ in range(3):
        network.sum_rightly()
    counters = network.leave()
    at_switches = [counters[name]["verdicts"] for name in SWITCHES]
    assert sum(verdicts["forwarded"] + verdicts["completed"] for verdicts in at_switches) > 0, "switches summed"


@pytest.mark.parametrize("policy", ["hash", "preempt"])
@pytest.mark.parametrize("engine", engines("udp", "xdp"))
def test_rounds_go_on_without_a_late_rank(network, policy, engine):
    plan = switched(policy, engine)
    server = next(node.id for node in plan.nodes if node.name == "ps")
    last = len(plan.workers) - 1
    rounds = Rounds(counts=[RoundCount(node=server, k=last)], most_missed=MOST_MISSED)
    job = plan.job.model_copy(update={"codec": "block", "rounds": rounds})
    network.join(plan.model_copy(update={"job": job}))
    for _ in range(2):
        network.sum_rightly_without(last)
    network.leave()


@pytest.mark.parametrize("engine", engines("udp", "xdp"))
def test_switches_count_and_bound_each_job(network, engine):
    """A quota at one switch drops what is beyond it, which is sent again; the switch counts it for the job."""
    network.join(switched("hash", engine))
    at_one = network.bed.deployment.daemon("S1")
    at_one.ask("quota", job=1, quota={"bytes_per_second": QUOTA_BYTES_PER_S})
    for _ in range(3):
        network.sum_rightly()
    (job,) = at_one.ask("status")["jobs"]
    network.leave()
    assert job["quota"]["bytes_per_second"] == QUOTA_BYTES_PER_S
    assert job["verdicts"]["over_quota"] > 0
    assert job["verdicts"]["forwarded"] > 0
    assert job["bytes"] > ELEMENTS


@pytest.mark.parametrize("engine", engines("udp", "xdp"))
def test_a_job_comes_to_switches_that_run_and_another_goes(network, engine):
    first = switched("hash", engine)
    network.join(first)
    deployment = network.bed.deployment
    second = deployment.add(switched("hash", engine, job_id=2))
    network.sum_rightly()
    network.tell("leave")
    network.answers()
    deployment.remove(first.job.id)
    assert [[job["job"] for job in seen["jobs"]] for seen in deployment.status().values()] == [[2]] * len(first.nodes)
    network.meet(second)
    network.sum_rightly()
    counters = network.leave()
    if engine == "xdp":
        assert [counters[name]["control"]["through_process"] for name in SWITCHES] == [0] * len(SWITCHES)


@pytest.mark.parametrize("engine", engines("udp", "xdp"))
def test_switches_without_jobs_take_another_policy(network, engine):
    first = switched("hash", engine)
    network.join(first)
    network.sum_rightly()
    network.tell("leave")
    network.answers()
    deployment = network.bed.deployment
    deployment.remove(first.job.id)
    network.meet(deployment.add(switched("preempt", engine, slots=2, job_id=2)))
    network.sum_rightly()
    verdicts = network.leave()["S1"]["verdicts"]
    assert verdicts["evicted"] + verdicts["collision"] > 0, "two slots of `preempt` do not suffice"


@pytest.mark.parametrize("policy", ["hash", "preempt", "exclusive", "register", "segment"])
@pytest.mark.parametrize("engine", engines("udp", "xdp"))
def test_sums_are_right_with_two_slots_for_a_window(network, policy, engine):
    plan = switched(policy, engine, slots=2)
    assert max(memory.slots for memory in plan.fabric.memory) <= 2 * len(plan.streams)
    network.join(plan)
    network.sum_rightly()
    network.leave()


@pytest.mark.parametrize("policy", PLANNERS)
@pytest.mark.parametrize("engine", engines("udp", "xdp"))
def test_no_step_is_lost_when_a_switch_is_taken_over_and_when_it_restarts(network, policy, engine):
    plan = switched(policy, engine)
    network.join(plan, elements=MANY_ELEMENTS)
    # One that sums, not one that only forwards.
    number = plan.streams[-1].places[0].node
    switch = next(node.name for node in plan.nodes if node.id == number)
    before = take_over_in_mid_round(network, switch)
    after = verdicts_of(network.bed, switch)
    assert sums(after) > sums(before), "it goes on, and its counters with it"
    assert after["recalls"] == 0, "nothing was forgotten"
    restart_in_mid_round(network, switch)
    network.sum_rightly()
    after = network.leave()[switch]["verdicts"]
    assert after["bypassed"] + after["recalls"] > 0, "what is sent again goes past what has forgotten"
    assert sums(after) > 0, "it sums again"


def take_over_in_mid_round(network, switch):
    """Rounds go on while a new process takes over; what the former one had counted before."""
    before = begin_round(network, switch)
    with ThreadPoolExecutor(1) as pool:
        taken_over = pool.submit(network.bed.deployment.upgrade, switch)
        network.have_summed_rightly()
        while not taken_over.done():
            network.sum_rightly()
        taken_over.result()
    network.sum_rightly()
    return before


def restart_in_mid_round(network, switch):
    """The switch dies without a word, and another one starts in its place with nothing in memory."""
    for _ in range(KILLS):
        begin_round(network, switch)
        network.bed.deployment.daemon(switch).kill()
        is_mid_round = network.are_busy()
        network.bed.deployment.revive(switch)
        network.have_summed_rightly()
        if is_mid_round:
            return
    raise AssertionError("nothing was killed in mid-round: raise MANY_ELEMENTS")


def begin_round(network, switch):
    """Ranks begin to sum; returns what the switch has counted when the sums of several windows have left it."""
    deadline = time.monotonic() + PATIENCE_S
    verdicts = verdicts_of(network.bed, switch)
    enough = sums(verdicts) + SUMS_BEFORE
    network.tell("sum")
    while sums(verdicts) < enough:
        assert time.monotonic() < deadline, f"no sums leave {switch}: {verdicts}"
        verdicts = verdicts_of(network.bed, switch)
    return verdicts


def verdicts_of(bed, switch):
    return bed.deployment.daemon(switch).ask("status")["verdicts"]


def sums(verdicts):
    """Sums that have left a switch."""
    return verdicts["forwarded"] + verdicts["completed"]


@pytest.mark.parametrize("engine", engines("udp", "xdp"))
def test_a_switch_that_dies_is_named_and_leaves_nothing(network, engine):
    network.join(switched("hash", engine), SHORT_S)
    space = network.bed.network.namespaces["S3"]
    has_program = "xdp" in run_tool(["ip", "-n", space, "link", "show"])
    assert has_program == (engine == "xdp")
    network.bed.deployment.daemon("S3").kill()
    assert "xdp" not in run_tool(["ip", "-n", space, "link", "show"])
    dead = network.bed.plan.nodes[[node.name for node in network.bed.plan.nodes].index("S3")].id
    for answer in network.sum():
        assert f"node {dead}" in answer["error"]
    network.leave()
