"""A rank is killed on a network of namespaces: all others name it, below the kernel's nodes, in trees and behind
switches alike."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.capabilities import engines

from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.planners.fabrics import plan_switched
from wiresum.testbed import Testbed
from wiresum.topology.generators.goat import goat
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg

pytestmark = pytest.mark.needs("namespaces")
DEADLINE_S = 120
"""Seconds of a collective: another error comes then."""
END_S = 180
VICTIM = 1
WORKER = f"""
import os
import numpy as np
from wiresum import _native, errors
from wiresum.plan.aggregation_plan import AggregationPlan
rank = int(os.environ["RANK"])
engine = _native.Engine(AggregationPlan.read(os.environ["WIRESUM_PLAN"]).to_json(), rank, 1, dead_after_s=1.0)
array = np.ones(100_000, dtype=np.float32)
engine.all_reduce(array, timeout_s={DEADLINE_S})
if rank == {VICTIM}:
    os.kill(os.getpid(), {int(signal.SIGKILL)})
for _ in range(2):
    try:
        engine.all_reduce(array, timeout_s={DEADLINE_S})
    except errors.CollectiveError as error:
        print(type(error).__name__, str(error).split(" is lost")[0], flush=True)
engine.close()
"""


@pytest.mark.parametrize("engine", engines("udp", "xdp", "af_xdp"))
@pytest.mark.parametrize("topology", [star(3), xagg()], ids=["star", "xagg"])
def test_all_others_name_a_rank_that_was_killed(name, topology, engine, tmp_path: Path):
    planned = plan(topology, Job(), PlanOptions(engine=engine))
    with Testbed(topology, planned, name=name) as bed:
        outputs = [(tmp_path / worker.name).open("w+") for worker in planned.workers]
        ranks = [
            bed.spawn_worker(rank, [sys.executable, "-c", WORKER], stdout=output, stderr=subprocess.STDOUT)
            for rank, output in enumerate(outputs)
        ]
        codes = [rank.wait(END_S) for rank in ranks]
        victim = bed.plan.workers[VICTIM]
        counters = bed.deployment.stop()
    said = [Path(output.name).read_text().splitlines() for output in outputs]
    assert [code == os.EX_OK for code in codes] == [rank != VICTIM for rank in range(len(ranks))], said
    expected = f"WorkerLostError worker {victim.name} (rank {VICTIM} at {victim.address})"
    for rank, lines in enumerate(said):
        assert rank == VICTIM or lines == [expected] * 2, lines
    assert sum(node["control"]["lost_workers"] for node in counters.values()) == 1


BEHIND_SWITCHES = f"""
import os
import torch.distributed as dist
import torch
from wiresum import errors
dist.init_process_group("wiresum")
tensor = torch.ones(100_000)
dist.all_reduce(tensor)
if dist.get_rank() == {VICTIM}:
    os.kill(os.getpid(), {int(signal.SIGKILL)})
for _ in range(2):
    try:
        dist.all_reduce(tensor)
    except errors.CollectiveError as error:
        print(type(error).__name__, str(error).split(": ", 1)[1].split(" is lost")[0], flush=True)
dist.destroy_process_group()
"""


def test_ranks_behind_switches_name_one_that_was_killed(name, tmp_path: Path):
    topology = goat(2, rate_bps=500e6)
    planned = plan_switched(topology.with_addresses(), Job(), PlanOptions(), "atp")
    with Testbed(topology, planned, name=name) as bed:
        outputs = [(tmp_path / worker.name).open("w+") for worker in planned.workers]
        ranks = [
            bed.spawn_worker(rank, [sys.executable, "-c", BEHIND_SWITCHES], stdout=output)
            for rank, output in enumerate(outputs)
        ]
        codes = [rank.wait(END_S) for rank in ranks]
    said = [Path(output.name).read_text().splitlines() for output in outputs]
    assert [code == os.EX_OK for code in codes] == [rank != VICTIM for rank in range(len(ranks))], said
    expected = f"WorkerLostError worker {planned.workers[VICTIM].name} (rank {VICTIM})"
    for rank, lines in enumerate(said):
        assert rank == VICTIM or lines == [expected] * 2, lines
