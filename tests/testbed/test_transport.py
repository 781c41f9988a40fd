"""Transports of workers on networks of namespaces: sums over AF_XDP frames, and what a killed worker leaves."""

import subprocess
import sys

import pytest
from tests.capabilities import engines

from wiresum.errors import TopologyError
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed, run
from wiresum.topology.generators.star import star

pytestmark = [pytest.mark.needs("namespaces"), pytest.mark.needs("xdp")]
ELEMENTS = 100_000
KILLED = 128 + 9
WORKER = f"""
import os, sys
import numpy as np
from wiresum import _native
from wiresum.plan.aggregation_plan import AggregationPlan
rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
plan = AggregationPlan.read(os.environ["WIRESUM_PLAN"]).to_json()
engine = _native.Engine(plan, rank, 1, transport=os.environ["WIRESUM_TRANSPORT"])
for _ in range(3):
    array = np.full({ELEMENTS}, rank + 1, dtype=np.float32)
    engine.all_reduce(array, timeout_s=120)
    assert (array == workers * (workers + 1) / 2).all(), array
print(engine.transport, engine.statistics()["frames_received"], flush=True)
if len(sys.argv) > 1:
    os.kill(os.getpid(), 9)
engine.close()
"""


def has_program(bed: Testbed, worker: str) -> bool:
    """Whether an XDP program is attached to a worker's interface."""
    command = bed.network.command(worker, ["ip", "link", "show", "up"])
    return "prog/xdp" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("engine", engines("udp", "xdp"))
@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
def test_sums_come_as_frames_and_no_program_outlives_its_worker(name, engine, killed):
    topology = star(2, rate_bps=None)
    planned = plan(topology, Job(), PlanOptions(engine=engine))
    lines: list[str] = []
    with Testbed(topology, planned, name=name, transport="af_xdp") as bed:
        command = [sys.executable, "-c", WORKER, *(["die"] if killed else [])]
        outcome = run(bed, command, lambda _rank, _is_error, line: lines.append(line))
        left = [has_program(bed, worker) for worker in bed.workers]
    assert left == [False, False]
    # The other worker is ended when the first has died.
    assert (KILLED in outcome.exit_codes) if killed else (outcome.exit_codes == [0, 0]), lines
    said = [line for line in lines if line.startswith("AF_XDP frames of")]
    assert len(said) >= 1, lines
    fragments = 3 * -(-ELEMENTS // planned.job.values_per_packet)
    assert all(int(line.split()[-1]) >= fragments for line in said), "sums came as frames, not through the stack"


def test_links_with_a_rate_are_refused():
    topology = star(2, rate_bps=100e6)
    with pytest.raises(TopologyError, match="pass the queues that limit a testbed's links"):
        Testbed(topology, plan(topology, Job(), PlanOptions(engine="udp")), transport="af_xdp")
