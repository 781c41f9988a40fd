"""The P4 programs against the golden traces of `spec/switch.md`, through BMv2; and what can be seen without it."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache

import pytest
from tests import capabilities
from tests.p4 import tools
from tests.p4.replay import CELLS, verdict_names
from tests.p4.scenes import SCENES

TRACE_LENGTH = 1024
# A replay takes two to five seconds on an idle machine.
SCENE_TIMEOUT_S = 120
on_bmv2 = pytest.mark.needs("namespaces", "p4c", "bmv2")


@pytest.fixture(scope="session")
def compiler():
    capabilities.require("p4c")
    return tools.find()


@pytest.fixture(scope="session")
def program(compiler, tmp_path_factory):
    folder = tmp_path_factory.mktemp("p4")

    @cache
    def of(policy: str, slots: int, lanes: int):
        to = folder / f"{policy}-{slots}-{lanes}.json"
        return tools.compile_program(compiler, policy, to, SLOTS=slots, LANES=lanes, TRACE=TRACE_LENGTH)

    return of


def run_alone(*arguments: str) -> None:
    """Runs a module of this folder in a network namespace of its own, which ends with it."""
    command = ["unshare", "--net", "--pid", "--fork", "--kill-child", sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=tools.ROOT, capture_output=True, text=True, timeout=SCENE_TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"


@on_bmv2
@pytest.mark.parametrize("name", tools.trace_names())
def test_bmv2_replays_the_golden_traces(program, name):
    trace = tools.trace(name)
    policy = trace["policy"].replace("-", "_")
    path = program(policy, trace["slots"], trace["values_per_packet"])
    run_alone("tests.p4.replay", name, str(path))


@on_bmv2
@pytest.mark.parametrize("scene", SCENES)
def test_bmv2_beyond_the_traces(program, scene):
    run_alone("tests.p4.scenes", scene, str(program("hash", 8, 8)), "8")


@pytest.mark.soak
@on_bmv2
def test_bmv2_sums_32_values(program):
    run_alone("tests.p4.scenes", "sums", str(program("hash", 8192, 32)), "32")


@pytest.mark.soak
@pytest.mark.parametrize("policy", tools.POLICIES)
def test_programs_compile_for_32_values(program, policy):
    assert program(policy, 8192, 32).exists()


def test_every_policy_of_the_reference_has_a_program():
    policies = {tools.trace(name)["policy"].replace("-", "_") for name in tools.trace_names()}
    assert policies == set(tools.POLICIES)


def test_every_golden_verdict_has_a_number():
    seen = {step["verdict"] for name in tools.trace_names() for step in tools.trace(name)["steps"]}
    text = (tools.PROGRAMS / "include" / "verdicts.p4").read_text()
    numbers = {int(number): name.lower() for name, number in re.findall(r"VERDICT_(\w+) = (\d+);", text)}
    assert seen <= set(numbers.values())
    assert numbers.items() <= verdict_names().items()
    assert int(re.search(r"#define VERDICTS (\d+)", text)[1]) > max(numbers)


# What the pipeline's rules let only an instance of these touch.
ARRAYS = ("KeyCell", "ContributorsCell", "FlagCell", "ScaleCell", "CountCell", "Bank")


def controls(text: str) -> dict[str, str]:
    """Bodies by name."""
    return dict(re.findall(r"^control (\w+)\(.*?\{(.*?)^\}", text, re.M | re.S))


@pytest.mark.parametrize("policy", tools.POLICIES)
def test_each_array_is_accessed_in_one_place(policy):
    text = tools.preprocessed(policy, "v1model")
    found = set()
    for name, body in controls(text).items():
        own = re.findall(rf"^    (?:{'|'.join(ARRAYS)})\(\) (\w+);", body, re.M)
        for instance in own:
            assert len(re.findall(rf"\b{instance}\.apply\(", body)) == 1, f"{policy}: {instance} is accessed twice"
        # A second instance of what has arrays would have arrays of its own.
        assert not own or len(re.findall(rf"^    {name}\(\) \w+;", text, re.M)) == 1, name
        found |= {f"{instance}.cells" for instance in own}
    golden = tools.trace(policy.replace("_", "-"))["registers"]
    assert {CELLS[name] for name, _ in golden} <= found
