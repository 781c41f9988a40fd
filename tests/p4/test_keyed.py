"""The P4 program that sums pairs (`spec/keyed.md`): what is seen of it without a compiler, and that one takes it."""

from __future__ import annotations

import json
import re

import pytest
from tests import capabilities
from tests.p4 import tools
from tests.p4.test_programs import controls

ARCHITECTURES = ("v1model", "tna")
# Controls that have a register array each.
ARRAYS = ("NumberCell", "CountCell32", "MarkCell32", "SumCell")


@pytest.mark.parametrize("registers", [4, 24])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_each_array_is_accessed_in_one_place(architecture, registers):
    bodies = controls(tools.preprocess("keyed.p4", architecture, REGISTERS=registers))
    found = []
    for body in bodies.values():
        own = re.findall(rf"\b({'|'.join(ARRAYS)})\(\) (\w+);", body)
        for kind, instance in own:
            assert len(re.findall(rf"\b{instance}\.apply\(", body)) == 1, f"{instance} is accessed twice"
            found.append(kind)
    counts = {kind: found.count(kind) for kind in ARRAYS}
    assert counts == {"NumberCell": 1, "CountCell32": 1, "MarkCell32": 1, "SumCell": registers}
    # A second instance of what has arrays would have arrays of its own.
    for name in ("Registers", "Keyed"):
        assert sum(len(re.findall(rf"\b{name}\(\) \w+;", body)) for body in bodies.values()) == 1


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_each_pair_of_a_packet_can_go_into_each_register(architecture):
    body = controls(tools.preprocess("keyed.p4", architecture, REGISTERS=4))["Registers"]
    chosen = re.findall(r"w\.home_(\d)\.register_number == (\d)", body)
    assert sorted(chosen) == [(str(pair), str(register)) for pair in range(8) for register in range(4)]


def test_every_golden_verdict_has_a_number():
    trace = json.loads((tools.ROOT / "spec" / "vectors" / "keyed" / "keyed.json").read_text())
    text = tools.preprocess("keyed.p4", "v1model")
    numbered = {name.lower() for name in re.findall(r"VERDICT_(\w+) = \d+;", text)}
    given = {name.lower() for name in re.findall(r"end_with\(VERDICT_(\w+),", text)}
    assert {step["verdict"] for step in trace["steps"]} <= given <= numbered


@pytest.mark.parametrize("registers", [4, 24])
def test_it_compiles(tmp_path, registers):
    capabilities.require("p4c")
    built = tools.compile_source(tools.find(), "keyed.p4", tmp_path / "keyed.json", REGISTERS=registers, KEYS=1000)
    assert built.exists()
