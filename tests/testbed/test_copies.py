"""FSDP2 in namespaces: its all-gathers and reduce-scatters go through the network, and it learns what it learns over
Gloo; on a star, and about the root of a tree.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.capabilities import engines
from tests.testbed.fsdp_worker import DTYPES, STEPS

from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.testbed import Testbed, run
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg

SCRIPT = Path(__file__).with_name("fsdp_worker.py")
STAR = star(3, 500e6)
ASKED = {"star": ["star", "--workers", str(len(STAR.workers))], "tree": ["xagg", "--planner", "xagg"]}
TOPOLOGIES = {"star": STAR, "tree": xagg()}
TOLERANCE = 1e-4


@pytest.mark.parametrize("engine", engines("xdp"))
@pytest.mark.parametrize("shape", ASKED)
def test_fsdp2_learns_the_same_as_over_gloo(namespaces, tmp_path, name, shape, engine):
    file, topology = tmp_path / "plan.json", TOPOLOGIES[shape]
    asked = [*ASKED[shape], "--engine", engine, "--copies", "--output", str(file)]
    subprocess.run([sys.executable, "-m", "wiresum", "plan", *asked], check=True, capture_output=True)
    lines: list[tuple[int, bool, str]] = []
    environment = {"WIRESUM_REQUIRE": "1", "WIRESUM_MIN_ELEMENTS": "1"}
    with Testbed(topology, AggregationPlan.read(file), name=name) as bed:
        outcome = run(bed, [sys.executable, str(SCRIPT)], lambda *line: lines.append(line), environment)
    assert outcome.exit_code == 0, lines
    found = [json.loads(text) for _, is_error, text in lines if not is_error]
    assert len(found) == len(topology.workers)
    for one in found:
        assert one["farthest"] <= TOLERANCE
        assert one["equal"] == [True] * 2 * len(DTYPES)
        assert one["gathered"] >= STEPS + len(DTYPES)
        assert one["scattered"] >= STEPS
