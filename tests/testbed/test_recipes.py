"""Recipes of docs/pytorch.md end with the same parameters on each rank, and are summed in the network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE_S = 250.0
"""Two ranks import PyTorch and more, on cores that may be busy."""
EXAMPLES = Path(__file__).parents[2] / "docs/examples"


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize(
    ("script", "options"), [("trainer.py", []), ("lightning_ddp.py", []), ("fsdp.py", ["--copies"])]
)
def test_a_recipe_sums_in_the_network(script, options, name):
    line = [sys.executable, "-m", "wiresum", "testbed", "run", "star", "--workers", "2", "--rate", "500mbit", *options]
    command = [*line, "--name", name, "--engine", "udp", "--", sys.executable, str(EXAMPLES / script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    totals = re.findall(r"rank (\d): parameters add up to (\S+)", done.stdout)
    assert sorted(rank for rank, _ in totals) == ["0", "1"], said
    assert len({total for _, total in totals}) == 1
    summed = re.findall(r"summed in the network: (\d+) of", said)
    assert int(summed[0]) >= 4, said
