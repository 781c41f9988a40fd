"""Sealed sums under DDP: on every engine, at servers and at switches, ranks learn what they learn in the open, bit for
bit.

One process for each rank serves the engines of a network: starting PyTorch takes longer than all sums.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.capabilities import best_engine, engines
from tests.testbed.ddp_worker import STEPS
from tests.testbed.groups import Ranks

from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners.fabrics import plan_switched
from wiresum.testbed import Testbed, run
from wiresum.topology.generators.racks import racks
from wiresum.topology.generators.star import star
from wiresum.wire import HEADER_LEN, IPV4_LEN, SEAL_LEN, UDP_LEN

SCRIPT = Path(__file__).with_name("ddp_worker.py")
WORKERS = 3
STAR = star(WORKERS, 500e6)
RACKS = racks(2, hosts_per_rack=2, rate_bps=500e6)
VALUES = 352
"""Values of a packet, sealed or not: then fragments have the same exponents, and sums the same bits."""
ELEMENTS = 10_000


def at_a_server(folder: Path, engine: str, *options: str) -> AggregationPlan:
    """What `wiresum plan` makes."""
    mtu = IPV4_LEN + UDP_LEN + HEADER_LEN + 4 * VALUES + (SEAL_LEN if "--sealed" in options else 0)
    file = folder / "plan.json"
    asked = ["star", "--workers", str(WORKERS), "--engine", engine, "--mtu", str(mtu), "--output", str(file)]
    command = [sys.executable, "-m", "wiresum", "plan", *asked, *options]
    subprocess.run(command, check=True, capture_output=True)
    return AggregationPlan.read(file)


def at_switches(policy: str, engine: str, *, sealed: bool) -> AggregationPlan:
    job = Job(sealed=sealed, window=16)
    return plan_switched(RACKS.with_addresses(), job, PlanOptions(), "p4inc-aoi", policy, engine=engine)


def learned(network: Ranks, plan: AggregationPlan) -> tuple[str, dict[str, dict[str, int]]]:
    """A digest of what every rank has learned, and what each node has counted."""
    network.join(plan)
    digest = network.train()
    return digest, {node: counted["verdicts"] for node, counted in network.leave().items()}


@pytest.fixture(scope="module")
def server(namespaces, tmp_path_factory):
    """Ranks around a server, and what they learn in the open."""
    plan = at_a_server(tmp_path_factory.mktemp("open"), best_engine())
    with Testbed(STAR, plan, mtu_bytes=Job().mtu_bytes, loopback=False) as bed, Ranks(bed, ELEMENTS) as ranks:
        yield ranks, learned(ranks, plan)[0]


@pytest.fixture(scope="module")
def switches(namespaces):
    """Ranks in racks, and what they learn in the open."""
    plan = at_switches("segment", best_engine(), sealed=False)
    with Testbed(RACKS, plan, mtu_bytes=Job().mtu_bytes, loopback=False) as bed, Ranks(bed, ELEMENTS) as ranks:
        yield ranks, learned(ranks, plan)[0]


@pytest.mark.parametrize("engine", engines("udp", "tcp", "xdp", "af_xdp"))
def test_servers_sum_what_they_cannot_read(server, tmp_path, engine):
    ranks, in_the_open = server
    plan = at_a_server(tmp_path, engine, "--sealed")
    assert plan.job.sealed
    digest, verdicts = learned(ranks, plan)
    assert digest == in_the_open
    assert verdicts["switch"]["completed"] >= STEPS


@pytest.mark.parametrize("policy", ["segment", "register"])
@pytest.mark.parametrize("engine", engines("udp", "xdp"))
def test_switches_sum_what_they_cannot_read(switches, engine, policy):
    ranks, in_the_open = switches
    digest, verdicts = learned(ranks, at_switches(policy, engine, sealed=True))
    assert digest == in_the_open
    assert verdicts["ps"]["completed"] >= STEPS


def test_a_script_needs_to_know_nothing_of_it(server, tmp_path, name):
    plan = at_a_server(tmp_path, best_engine(), "--sealed")
    lines: list[tuple[int, bool, str]] = []
    with Testbed(STAR, plan, name=name) as bed:
        outcome = run(bed, [sys.executable, str(SCRIPT)], lambda *line: lines.append(line), {"WIRESUM_REQUIRE": "1"})
        verdicts = bed.deployment.stop()["switch"]["verdicts"]
    assert outcome.exit_code == 0, lines
    assert {text for _, is_error, text in lines if not is_error} == {server[1]}
    assert verdicts["completed"] >= STEPS
