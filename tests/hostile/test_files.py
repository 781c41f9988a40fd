"""Files that are too large, too deep, devices, or cannot be written: one screen of error, exit code 2, no traceback."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from wiresum.plan.aggregation_plan import secret_beside

LINES = 24
"""Lines of a screen."""
LIMIT_S = 60.0
"""Limit of a command on a busy machine."""


def _fails(*arguments: str, word: str, limit_s: float = LIMIT_S) -> None:
    command = [sys.executable, "-m", "wiresum", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert word in done.stderr, done.stderr
    assert len(done.stderr) < 80 * LINES, done.stderr


@pytest.mark.parametrize("command", [["explain"], ["plan"]])
def test_a_device_is_no_plan(command: list[str]) -> None:
    _fails(*command, "/dev/zero", word="MiB")


def test_a_scenario_may_be_nested_too_deeply(tmp_path: Path) -> None:
    deep = tmp_path / "deep.toml"
    deep.write_text("x = " + "[" * 100_000 + "]" * 100_000)
    _fails("simulate", str(deep), word="nested")


def test_a_document_may_be_nested_too_deeply(tmp_path: Path) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000 + "]" * 100_000)
    _fails("explain", str(deep), word="not valid JSON")


@pytest.mark.parametrize(
    "spec", ["leaf-spine:leaves=100000,spines=1000", "racks:worker-racks=1000000", "optical:units=1000000"]
)
def test_a_network_may_be_too_large(spec: str) -> None:
    _fails("plan", spec, word="make it smaller")


def test_a_topology_of_a_million_workers_is_refused(tmp_path: Path) -> None:
    nodes = [{"name": f"w{number}", "kind": "worker"} for number in range(1_000_000)]
    large = tmp_path / "large.json"
    large.write_text(json.dumps({"format": "wiresum-topology/1", "name": "large", "nodes": nodes, "links": []}))
    _fails("plan", str(large), word="nodes")


def test_what_is_wrong_is_quoted_in_part(tmp_path: Path) -> None:
    long = tmp_path / "long.json"
    unknown = {"x" * 100_000: 1, "format": "wiresum-topology/1", "name": "x" * 100_000, "nodes": [], "links": []}
    long.write_text(json.dumps(unknown))
    _fails("plan", str(long), word="xxx")


def test_a_full_disk_is_an_error_and_leaves_what_was_there() -> None:
    _fails("plan", "star:workers=2", "-o", "/dev/full", word="cannot be written")


def test_a_plan_is_replaced_in_one_step_and_its_secret_is_its_owners(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text("what was there")
    secret = secret_beside(plan)
    secret.write_text("open")
    secret.chmod(0o644)
    command = [sys.executable, "-m", "wiresum", "plan", "star:workers=2", "-o", str(plan)]
    mask = os.umask(0)
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S)
    finally:
        os.umask(mask)
    assert json.loads(plan.read_text())["job"]
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([plan.name, secret.name])
