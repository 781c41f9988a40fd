"""Gradients really are summed where the plan says, in namespaces, by the kernel and in user space."""

import subprocess
import sys

import pytest
from tests.capabilities import engines

from wiresum.errors import PlanError
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed, run
from wiresum.topology.generators.servers import servers
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg

pytestmark = pytest.mark.needs("namespaces")
ELEMENTS = 200_000
LOSSY_ROUNDS = 8
WORKER = f"""
import os
import numpy as np
from wiresum import _native
from wiresum.plan.aggregation_plan import AggregationPlan
rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
engine = _native.Engine(AggregationPlan.read(os.environ["WIRESUM_PLAN"]).to_json(), rank, 1)
for _ in range(int(os.environ.get("ROUNDS", "1"))):
    array = np.full({ELEMENTS}, rank + 1, dtype=np.float32)
    engine.all_reduce(array, timeout_s=120)
    assert (array == workers * (workers + 1) / 2).all(), array
engine.close()
"""


@pytest.mark.parametrize("policy", ["pool", "cache"])
@pytest.mark.parametrize("engine", engines("udp", "tcp", "xdp", "af_xdp"))
@pytest.mark.parametrize("topology", [star(3), xagg()], ids=["star", "xagg"])
def test_each_node_sums_its_children_and_each_worker_sends_once(name, topology, engine, policy):
    planned = plan(topology, Job(policy=policy), PlanOptions(engine=engine))
    lines = []
    with Testbed(topology, planned, name=name) as bed:
        outcome = run(bed, [sys.executable, "-c", WORKER], lambda *line: lines.append(line))
        counters = bed.deployment.stop()
    assert outcome.exit_code == 0, lines
    root, *inner = [counters[node.name]["verdicts"] for node in planned.nodes]
    fragments = -(-ELEMENTS // planned.job.values_per_packet)
    assert root["completed"] >= fragments
    assert all(node["forwarded"] >= fragments for node in inner)
    if engine == "af_xdp":
        children = sum(len(stream.legs) for stream in planned.streams if stream.role == "values")
        frames = sum(counters[node.name]["socket"]["frames_received"] for node in planned.nodes)
        assert frames >= children * fragments, "data came as frames, not through the stack"
    payload_bytes = 4 * ELEMENTS
    for worker in planned.workers:
        assert outcome.traffic[worker.name].forward.bytes >= payload_bytes
        assert outcome.traffic[worker.name].backward.bytes >= payload_bytes


@pytest.mark.parametrize("policy", ["pool", "cache"])
@pytest.mark.parametrize("engine", engines("udp", "xdp"))
@pytest.mark.parametrize("colocated", [False, True], ids=["apart", "colocated"])
def test_each_server_of_a_forest_sums_its_share(name, colocated, engine, policy):
    topology = servers(workers=3, servers=3, rate_bps=300e6, colocated=colocated)
    planned = plan(topology, Job(policy=policy, gradient_bytes=4 * ELEMENTS), PlanOptions(engine=engine), "forest")
    lines = []
    with Testbed(topology, planned, name=name) as bed:
        outcome = run(bed, [sys.executable, "-c", WORKER], lambda *line: lines.append(line))
        counters = bed.deployment.stop()
    assert outcome.exit_code == 0, lines
    fragments = -(-ELEMENTS // planned.job.values_per_packet)
    completed = {node.name: counters[node.name]["verdicts"]["completed"] for node in planned.nodes}
    assert len(completed) == 3
    # A third each, and the few of the exponents at one of them.
    assert all(fragments // 3 <= count <= fragments // 3 + 3 for count in completed.values()), completed


@pytest.mark.parametrize("engine", ["udp", "tcp"])
@pytest.mark.parametrize("lanes", ["int32-le", "int16-le"])
def test_servers_in_user_space_sum_packets_of_9000_bytes(name, engine, lanes):
    job = Job(mtu_bytes=9000, jumbo=True, lanes=lanes, gradient_bytes=4 * ELEMENTS)
    topology = star(3) if engine == "tcp" else star(3).with_loss(0.01)
    planned = plan(topology, job, PlanOptions(engine=engine))
    assert planned.job.values_per_packet == 2232
    lines = []
    with Testbed(topology, planned, name=name, mtu_bytes=9000) as bed:
        outcome = run(bed, [sys.executable, "-c", WORKER], lambda *line: lines.append(line))
        counters = bed.deployment.stop()
    assert outcome.exit_code == 0, lines
    fragments = -(-ELEMENTS // (2232 if lanes == "int32-le" else 2 * 2232))
    (node,) = planned.nodes
    completed = counters[node.name]["verdicts"]["completed"]
    assert fragments <= completed <= fragments + 3, "the few are of the exponents"


def test_a_command_with_jumbo_packets_is_served_in_user_space(name):
    line = [sys.executable, "-m", "wiresum", "testbed", "run", "star", "--workers", "2", "--mtu", "9000", "--jumbo"]
    line += ["--name", name, "--", sys.executable, "-c", WORKER]
    done = subprocess.run(line, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("choice", [{"sealed": True}, {"proven": True}])
def test_jumbo_packets_have_no_seals_or_proofs(choice):
    with pytest.raises(ValueError, match="jumbo: packets of sums that are sealed or proven have at most 736 values"):
        Job(jumbo=True, **choice)


def test_programs_sum_no_jumbo_packets():
    with pytest.raises(PlanError, match="at most 736 where a node has the engine `xdp` or `af_xdp`"):
        plan(star(3), Job(mtu_bytes=9000, jumbo=True), PlanOptions(engine="xdp"))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("engine", engines("udp", "xdp"))
def test_sums_are_exact_and_nodes_recover_their_own_losses_in_a_lossy_tree(name, engine, threads):
    topology = xagg().with_loss(0.02)
    placed = plan(topology, Job(gradient_bytes=4 * ELEMENTS, threads=threads), PlanOptions(engine=engine))
    node_threads = threads if engine == "udp" else None
    output: list[str] = []
    rounds = {"ROUNDS": str(LOSSY_ROUNDS)}
    with Testbed(topology, placed, name=name, mtu_bytes=3200, node_threads=node_threads) as bed:
        statuses = bed.deployment.status()
        outcome = run(bed, [sys.executable, "-c", WORKER], lambda rank, is_error, line: output.append(line), rounds)
        counters = bed.deployment.stop()
    assert {status["threads"] for status in statuses.values()} == {node_threads or 1}
    assert outcome.exit_codes == [0] * 7, "\n".join(output)
    again = {node: counters[node]["transmitter"]["sent_again"] for node in ("S1", "S2", "PS")}
    assert again["S1"] > 0, "280 sums a round, each up and down a link that loses one in fifty"
    assert again["PS"] == 0, "the root has no parent"
