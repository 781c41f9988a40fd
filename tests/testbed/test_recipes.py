"""Recipes of docs/pytorch.md end with the same parameters on each rank, and are summed in the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE_S = 250.0
"""Two to four ranks import PyTorch and more, on cores that may be busy."""
EXAMPLES = Path(__file__).parents[2] / "docs/examples"


TORCHRUN = (
    "torchrun --nnodes 2 --nproc-per-node 1"
    ' --node-rank "$NODE_RANK" --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" "$0"'
)
"""Started once on each host, as by hand; torchrun gives the ranks."""
BY_TORCHRUN = ["env", "-u", "RANK", "-u", "WORLD_SIZE", "sh", "-c", TORCHRUN]


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize(
    ("script", "workers", "options", "launcher"),
    [
        pytest.param("ddp.py", 2, [], [sys.executable], id="ddp"),
        pytest.param("accelerate_ddp.py", 2, [], BY_TORCHRUN, id="torchrun"),
        pytest.param("accelerate_ddp.py", 2, [], [sys.executable], id="accelerate"),
        pytest.param("trainer.py", 2, [], [sys.executable], id="trainer"),
        pytest.param("lightning_ddp.py", 2, [], [sys.executable], id="lightning"),
        pytest.param("fsdp.py", 2, ["--copies"], [sys.executable], id="fsdp"),
        pytest.param("hsdp.py", 4, ["--copies", "--mesh", "2x2"], [sys.executable], id="hsdp"),
    ],
)
def test_a_recipe_sums_in_the_network(script, options, launcher, *, workers, name, monkeypatch):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    line = [sys.executable, "-m", "wiresum", "testbed", "run", "star", "--workers", str(workers), "--rate", "500mbit"]
    command = [*line, *options, "--name", name, "--engine", "udp", "--", *launcher, str(EXAMPLES / script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    totals = re.findall(r"rank (\d): parameters add up to (\S+)", done.stdout)
    assert sorted(int(rank) for rank, _ in totals) == list(range(workers)), said
    assert len({total for _, total in totals}) == 1
    summed = re.findall(r"summed in the network: (\d+) of", said)
    assert max(map(int, summed)) >= 4, said  # in one of its groups
