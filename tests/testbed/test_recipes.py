"""Recipes of docs/pytorch.md end with the same parameters on each rank, and are summed in the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE_S = 250.0
"""Two ranks import PyTorch and more, on cores that may be busy."""
EXAMPLES = Path(__file__).parents[2] / "docs/examples"


TORCHRUN = (
    "torchrun --nnodes 2 --nproc-per-node 1"
    ' --node-rank "$NODE_RANK" --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" "$0"'
)
"""Started once on each host, as by hand; torchrun gives the ranks."""
BY_TORCHRUN = ["env", "-u", "RANK", "-u", "WORLD_SIZE", "sh", "-c", TORCHRUN]


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize(
    ("script", "options", "launcher"),
    [
        pytest.param("ddp.py", [], [sys.executable], id="ddp"),
        pytest.param("accelerate_ddp.py", [], BY_TORCHRUN, id="torchrun"),
        pytest.param("accelerate_ddp.py", [], [sys.executable], id="accelerate"),
        pytest.param("trainer.py", [], [sys.executable], id="trainer"),
        pytest.param("lightning_ddp.py", [], [sys.executable], id="lightning"),
        pytest.param("fsdp.py", ["--copies"], [sys.executable], id="fsdp"),
    ],
)
def test_a_recipe_sums_in_the_network(script, options, launcher, name, monkeypatch):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    line = [sys.executable, "-m", "wiresum", "testbed", "run", "star", "--workers", "2", "--rate", "500mbit", *options]
    command = [*line, "--name", name, "--engine", "udp", "--", *launcher, str(EXAMPLES / script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    totals = re.findall(r"rank (\d): parameters add up to (\S+)", done.stdout)
    assert sorted(rank for rank, _ in totals) == ["0", "1"], said
    assert len({total for _, total in totals}) == 1
    summed = re.findall(r"summed in the network: (\d+) of", said)
    assert int(summed[0]) >= 4, said
