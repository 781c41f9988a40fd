"""`docs/examples/recommender.py`, as docs/sparse.md runs it: the same losses whoever holds the tables."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE_S = 250.0
"""Two ranks import PyTorch, on cores that may be busy."""
SCRIPT = Path(__file__).parents[2] / "docs/examples/recommender.py"
TOLERANCE = 2e-4
"""Relative difference of losses: sums are rounded otherwise, and Adagrad divides by what may be small."""
XDP = [pytest.mark.needs("namespaces"), pytest.mark.needs("xdp")]


def losses(place: list[str], name: str, *options: str, script: tuple[str, ...] = ()) -> list[float]:
    line = [sys.executable, "-m", "wiresum", "testbed", "run", "star", "--workers", "2", "--name", name]
    command = [*line, *place, *options, "--", sys.executable, str(SCRIPT), *script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "summed in the network" in done.stdout + done.stderr, "the dense part"
    return [float(found) for found in re.findall(r"loss ([\d.]+)", done.stdout)]


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(["--rate", "100mbit", "--engine", "xdp"], marks=XDP, id="xdp"),
        pytest.param(["--loopback"], id="loopback"),
    ],
)
def test_a_script_with_sparse_tables_and_one_line_more_train_alike(place, tmp_path, name):
    tables = tmp_path / "tables.json"
    printed = subprocess.run([sys.executable, SCRIPT, "--print-tables"], capture_output=True, text=True, check=True)
    tables.write_text(printed.stdout)
    unmodified = losses(place, name)
    hot = [] if "--loopback" in place else ["--hot-rows", "500"]
    sharded = losses(place, name, "--servers", "1", "--tables", str(tables), *hot, script=("--shard",))
    assert len(unmodified) == len(sharded) > 10
    assert sharded == pytest.approx(unmodified, rel=TOLERANCE)
    assert unmodified[-1] < unmodified[0]
