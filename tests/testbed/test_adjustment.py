"""A training goes on over an adjusted plan, with the results that it would have had."""

import sys
import time

import pytest
from tests.capabilities import best_engine

from wiresum.adjust.adjustment import Load, adjust
from wiresum.errors import TestbedError
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed
from wiresum.topology.model import Link, Node, Topology

pytestmark = pytest.mark.needs("namespaces")
GBIT = 1e9
LEAVE_S = 120.0
"""For workers to start PyTorch and train three rounds on a busy machine."""
TRAINING = """
import os, sys, time
from pathlib import Path
import torch
import torch.distributed as dist
from wiresum.torch import report

folder, rank, size = Path(sys.argv[1]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
FEATURES, HALF = 3000, 3

def join(number):
    dist.init_process_group("wiresum", init_method=f"file://{folder}/store-{number}", rank=rank, world_size=size)

def train(weights, rounds):
    for number in rounds:
        seeded = torch.Generator().manual_seed(100 * number + rank)
        inputs = torch.randn(16, FEATURES, generator=seeded)
        gradient = inputs.T @ (inputs @ weights - inputs.sum(1, keepdim=True)) / FEATURES
        dist.all_reduce(gradient)
        weights -= gradient / size
    return weights

join(1)
undisturbed = train(torch.zeros(FEATURES, 1), range(2 * HALF))
adjusted = train(torch.zeros(FEATURES, 1), range(HALF))
dist.destroy_process_group()

(folder / f"left-{rank}").touch()
while not (folder / "next").exists():
    time.sleep(0.02)
join(2)
train(adjusted, range(HALF, 2 * HALF))
assert undisturbed.abs().max() > 0.01
assert torch.equal(adjusted, undisturbed), (adjusted - undisturbed).abs().max()
dist.destroy_process_group()
"""


def network() -> Topology:
    """Two workers below a server, and a third, below a parameter server."""
    nodes = [Node(name=f"w{rank}", kind="worker", sums_at="S1" if rank < 2 else "PS") for rank in range(3)]
    nodes += [
        Node(name="S1", kind="aggregator", aggregation_rate_bps=GBIT, sums_at="PS"),
        Node(name="PS", kind="ps", aggregation_rate_bps=GBIT),
        Node(name="fabric", kind="switch"),
    ]
    hosts = [node.name for node in nodes if node.name != "fabric"]
    links = [Link(id=host, source=host, target="fabric", bandwidth_bps=0.3 * GBIT) for host in hosts]
    return Topology(name="adjusted", nodes=nodes, links=links).with_addresses()


def wait_until_all_have_left(folder, trainers) -> None:
    deadline = time.monotonic() + LEAVE_S
    while len(list(folder.glob("left-*"))) < len(trainers):
        ended = [trainer.poll() for trainer in trainers]
        assert ended == [None] * len(trainers), f"workers ended with {ended}"
        assert time.monotonic() < deadline, f"workers have not left their group after {LEAVE_S} s"
        time.sleep(0.05)


def test_workers_join_again_with_the_adjusted_plan_and_sums_stay_exact(name, tmp_path):
    options = PlanOptions(engine=best_engine())
    before = plan(network(), Job(policy="cache", gradient_bytes=10**6), options)
    after = adjust(before, network(), {"S1": Load(idle_cores=0)})
    assert [str(move) for move in after.moves] == ["w0 moves from S1 to PS", "w1 moves from S1 to PS"]
    command = [sys.executable, "-c", TRAINING, str(tmp_path)]
    with Testbed(network(), before, name=name) as bed:
        trainers = [bed.spawn_worker(rank, command, {"WIRESUM_REQUIRE": "1"}) for rank in range(3)]
        wait_until_all_have_left(tmp_path, trainers)
        first = bed.deployment.replace(after.plan)
        (tmp_path / "next").touch()
        assert [trainer.wait(LEAVE_S) for trainer in trainers] == [0, 0, 0]
        second = bed.deployment.stop()
    assert set(first) == {"S1", "PS"}
    assert set(second) == {"PS"}
    assert first["S1"]["verdicts"]["forwarded"] > 0
    assert second["PS"]["verdicts"]["completed"] > 0


def test_a_plan_with_xdp_at_another_node_needs_another_testbed(name):
    xdp = plan(network(), Job(), PlanOptions(engine="xdp"))
    udp = plan(network(), Job(), PlanOptions(engine="udp"))
    with Testbed(network(), udp, name=name) as bed, pytest.raises(TestbedError, match="no ports for XDP at PS"):
        bed.deployment.replace(xdp)
