"""FSDP2 in namespaces: its all-gathers and reduce-scatters go through the network, and it learns what it learns over
Gloo; on a star, and by all servers of a tree. Each server carries the bytes that are predicted.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.capabilities import engines
from tests.testbed.fsdp_worker import DTYPES, STEPS

from wiresum.bench.collectives.worker import Task
from wiresum.bench.workers import view
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.exchanges import servers_of
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.predict.collectives import predict_collective
from wiresum.testbed import Testbed, run
from wiresum.topology.generators.servers import servers
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg

SCRIPT = Path(__file__).with_name("fsdp_worker.py")
STAR = star(3, 500e6)
ASKED = {"star": ["star", "--workers", str(len(STAR.workers))], "tree": ["xagg", "--planner", "xagg"]}
TOPOLOGIES = {"star": STAR, "tree": xagg()}
COPYING = {"star": {"switch"}, "tree": {"S1", "S2", "PS"}}
TOLERANCE = 1e-4
SIZE, RATE_BPS = 9_000_000, 500e6
ABOUT = 0.04
"""Relative: questions, answers and hellos that predictions leave out."""


@pytest.mark.parametrize("engine", engines("xdp"))
@pytest.mark.parametrize("shape", ASKED)
def test_fsdp2_learns_the_same_as_over_gloo(namespaces, tmp_path, name, shape, engine):
    file, topology = tmp_path / "plan.json", TOPOLOGIES[shape]
    asked = [*ASKED[shape], "--engine", engine, "--copies", "--output", str(file)]
    subprocess.run([sys.executable, "-m", "wiresum", "plan", *asked], check=True, capture_output=True)
    lines: list[tuple[int, bool, str]] = []
    environment = {"WIRESUM_REQUIRE": "1", "WIRESUM_MIN_ELEMENTS": "1"}
    made = AggregationPlan.read(file)
    assert servers_of(made).keys() == COPYING[shape]
    with Testbed(topology, made, name=name) as bed:
        outcome = run(bed, [sys.executable, str(SCRIPT)], lambda *line: lines.append(line), environment)
    assert outcome.exit_code == 0, lines
    found = [json.loads(text) for _, is_error, text in lines if not is_error]
    assert len(found) == len(topology.workers)
    for one in found:
        assert one["farthest"] <= TOLERANCE
        assert one["equal"] == [True] * 2 * len(DTYPES)
        assert one["gathered"] >= STEPS + len(DTYPES)
        assert one["scattered"] >= STEPS


@pytest.mark.parametrize("engine", engines("xdp"))
@pytest.mark.parametrize("collective", ["reduce_scatter", "all_gather", "gather", "scatter"])
def test_each_server_carries_what_is_predicted(namespaces, name, collective, engine):
    topology = servers(3, 2, RATE_BPS)
    made = plan(topology, Job(copies=True, gradient_bytes=SIZE), PlanOptions(engine=engine), "byteps")
    assert servers_of(made) == {name: pytest.approx(0.5, abs=0.01) for name in ("s0", "s1")}
    with Testbed(topology, made, name=name, loopback=False) as bed:
        before = bed.link_traffic()
        view(bed, Task(["wiresum"], [collective], "float32", SIZE // 4, 1, 0, str(bed.folder / "view.json")))
        seen = {link: now.since(before[link]) for link, now in bed.link_traffic().items()}
    predicted = predict_collective(topology, made, SIZE, collective)
    loads = {(link.capacity.source, link.capacity.target): link.wire_bytes for link in predicted.links}
    for server in ("s0", "s1"):
        assert seen[server].forward.bytes == pytest.approx(loads[server, "fabric"], rel=ABOUT)
        assert seen[server].backward.bytes == pytest.approx(loads["fabric", server], rel=ABOUT)
