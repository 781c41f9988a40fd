"""The command line where letters are few, the terminal is narrow, or there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

WAIT_S = 60
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}


def wiresum(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LANG", "LC_ALL"}}
    command = [sys.executable, "-m", "wiresum", *arguments]
    return subprocess.run(
        command, env={**kept, **environment}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=WAIT_S, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    assert wiresum("plan", "star", "--planner", "direct", "-o", str(path)).returncode == 0
    return str(path)


def test_a_locale_without_arrows_gets_question_marks(plan_file: str):
    told = wiresum("predict", plan_file, "-t", "star", **ASCII)
    assert (told.returncode, "Traceback" in told.stderr) == (0, False)
    assert "w0 ? switch" in told.stdout
    assert told.stdout.isascii()


def test_a_file_that_cannot_be_written_in_is_named_with_the_reason():
    refused = wiresum("plan", "star", "--planner", "direct", "-o", "/proc/plan.json", **ASCII)
    assert refused.returncode == 2
    assert "/proc/plan.json" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_without_a_terminal_each_row_is_one_line(plan_file: str):
    told = wiresum("predict", plan_file, "-t", "star")
    assert "\x1b" not in told.stdout
    assert all("%" in line for line in told.stdout.splitlines() if "switch" in line and "│" in line)


def test_sixty_columns_cut_nothing_off(plan_file: str):
    told = wiresum("doctor", COLUMNS="60")
    assert max(map(len, told.stdout.splitlines())) <= 60
    assert "…" not in told.stdout
    assert told.stdout.splitlines()[-1].startswith("ready") == (told.returncode == 0)


def test_no_home_to_write_in_is_no_obstacle(tmp_path: Path):
    path = tmp_path / "plan.json"
    told = wiresum("plan", "star", "--planner", "direct", "-o", str(path), HOME="/proc/none", XDG_CACHE_HOME="")
    assert told.returncode == 0, told.stderr
    assert path.exists()
    assert "Traceback" not in told.stderr
