"""FSDP2 in namespaces: its all-gathers and reduce-scatters go through the network, and it learns what it learns over
Gloo.
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

SCRIPT = Path(__file__).with_name("fsdp_worker.py")
WORKERS = 3
TOLERANCE = 1e-4


@pytest.mark.parametrize("engine", engines("xdp"))
def test_fsdp2_learns_the_same_as_over_gloo(namespaces, tmp_path, name, engine):
    file = tmp_path / "plan.json"
    asked = ["star", "--workers", str(WORKERS), "--engine", engine, "--copies", "--output", str(file)]
    subprocess.run([sys.executable, "-m", "wiresum", "plan", *asked], check=True, capture_output=True)
    lines: list[tuple[int, bool, str]] = []
    environment = {"WIRESUM_REQUIRE": "1", "WIRESUM_MIN_ELEMENTS": "1"}
    with Testbed(star(WORKERS, 500e6), AggregationPlan.read(file), name=name) as bed:
        outcome = run(bed, [sys.executable, str(SCRIPT)], lambda *line: lines.append(line), environment)
    assert outcome.exit_code == 0, lines
    found = [json.loads(text) for _, is_error, text in lines if not is_error]
    assert len(found) == WORKERS
    for one in found:
        assert one["farthest"] <= TOLERANCE
        assert one["equal"] == [True] * 2 * len(DTYPES)
        assert one["gathered"] >= STEPS + len(DTYPES)
        assert one["scattered"] >= STEPS
