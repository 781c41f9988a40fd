"""What a command took, and what a report says of many."""

from __future__ import annotations

import os

import pytest

from wiresum.bench.start_up.measure import BARE, TORCH, Case, Spent, cases, spent, to_report
from wiresum.errors import TestbedError

BURN = "import time; exec('while time.process_time() < 0.2: pass')"


def test_processors_of_children_count(tmp_path):
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])"
    taken = spent(Case(["-c", child]), tmp_path)
    assert taken.processor > 0.2
    assert taken.elapsed > 0


def test_modules_are_compiled_into_the_folder_whatever_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    spent(Case(["-c", "import wiresum.registry"]), tmp_path)
    assert any("registry" in path.name for path in tmp_path.rglob("*.pyc"))
    assert os.environ["PYTHONDONTWRITEBYTECODE"] == "1"


def test_a_command_that_fails_is_named_with_its_complaint(tmp_path):
    with pytest.raises(TestbedError, match=r"sys\.exit.*ended with 1: no such plan"):
        spent(Case(["-c", "import sys; sys.exit('no such plan')"]), tmp_path)
    spent(Case(["-c", "raise SystemExit(3)"], codes=(0, 3)), tmp_path)


def test_a_report_has_both_times_ratios_and_missed_aims():
    chosen = {BARE: Case([], None), TORCH: Case([], None), "plan": Case([], 0.6), "help": Case([], 0.25)}
    taken = {BARE: 0.02, TORCH: 4.0, "plan": 0.8, "help": 0.2}
    report = to_report(3, chosen, {name: [Spent(seconds, 2 * seconds)] * 3 for name, seconds in taken.items()})
    assert {result.name: result.median for result in report.results} == {
        **taken, **{f"{name}, until it ends": 2 * seconds for name, seconds in taken.items()}
    }  # fmt: skip
    assert {ratio.name: pytest.approx(ratio.value) for ratio in report.ratios} == {
        f"plan / {TORCH}": 0.2, f"help / {TORCH}": 0.05
    }  # fmt: skip
    assert report.notes == ["plan takes 0.80 s of processor time, the aim is 0.6 s"]


def test_twelve_commands_beside_a_bare_python(tmp_path):
    named = set(cases(tmp_path / "plan.json"))
    assert BARE in named
    assert len(named - {BARE, TORCH}) == 12
