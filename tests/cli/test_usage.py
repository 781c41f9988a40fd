"""Lines that are wrong: what to write instead."""

from __future__ import annotations

import json
import subprocess
import sys
from subprocess import PIPE, STDOUT

import pytest
from tests.cli.forks import wiresum

WAIT_S = 60
PLAN = "spec/example-plan.json"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"predict {PLAN} two.json", "two.json stands without an option; write --topology two.json"),
        ("circuits apply timetable.json x.json", "x.json stands without an option; write --topology x.json"),
        (f"node {PLAN} --listen x", "to start a daemon, write `wiresum-node --plan PLAN --node ID`"),
        ("testbed create", "Choose from run, up, down, pass, list."),
        ("topology zzz", "Choose from fat-tree, goat,"),
        ("node stats", "Did you mean 'status'?"),
        ("plan star --model foo", "--model: foo is neither a size, as 25MB, nor a model; choose from alexnet"),
        ("plan star --model resnet5", "nor a model; did you mean resnet50?"),
        ("plan star --model 3MB --group 1MB", "--group: a size has no layers"),
        ("plan star --gradient big", "'--gradient': big is not a size"),
        ("workload poisson --bytes 10MB,x", "'--bytes': x is not a size"),
        ("topology star --rate fast", "rate: fast is not a rate"),
        ("sparse profile oa --sampling 200%", "'--sampling': '200%' is not a fraction"),
    ],
)
def test_it_is_said_what_to_write(line: str, said: str) -> None:
    done = wiresum(*line.split())
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert not done.stdout


def test_an_option_that_is_missing_alone_is_named_alone() -> None:
    done = wiresum("predict", PLAN)
    assert done.stderr.splitlines()[-1] == "Error: Missing option '--topology' / '-t'."


def test_one_value_of_two_options_is_blamed_on_neither() -> None:
    done = wiresum("plan", "star", "--gradient", "big", "--codec", "big")
    assert "Error: Invalid value: big is not a size" in done.stderr


def test_an_explanation_follows_the_plan_that_it_explains() -> None:
    line = "plan star --workers 2 --planner direct --explain"
    command = [sys.executable, "-m", "wiresum", *line.split()]
    screen = subprocess.run(command, stdout=PIPE, stderr=STDOUT, text=True, timeout=WAIT_S, check=True).stdout
    plan, brace, words = screen.rpartition("\n}\n")
    assert json.loads(plan + brace)["planner"] == "direct"
    assert "switch sums w0, w1" in words
