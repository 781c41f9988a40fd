"""Attacks that the specification says are tried: each has a test that is there, and an attacker that operators know."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEST = re.compile(r"`([\w/.-]+)::(\w+)`")


def rows(page: str, heading: str) -> list[list[str]]:
    """Cells of the rows of the table of a section; an attacker stands in the first of their rows alone."""
    section = (ROOT / page).read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


ATTACKS = rows("spec/security.md", "Attacks that are tried")


def test_every_attacker_is_tried():
    attackers = [row[0] for row in rows("docs/security.md", "Who can do what")]
    assert sorted(attackers) == sorted({row[0] for row in ATTACKS if row[0]})


@pytest.mark.parametrize(("file", "name"), sorted({found for row in ATTACKS for found in TEST.findall(row[3])}))
def test_every_test_of_an_attack_is_there(file, name):
    text = (ROOT / file).read_text()
    is_test = r"^def test_" if file.endswith(".py") else r"#\[test\]\n(?:\s*(?:#|//).*\n)*\s*fn "
    found = re.search(rf"{is_test}{name.removeprefix('test_')}\(", text, flags=re.MULTILINE)
    assert found, f"{file} has no test {name}"


def test_what_succeeds_is_said_to_operators():
    succeed = [row for row in ATTACKS if row[2].startswith("*succeeds*")]
    operators = {row[0]: row[1] for row in rows("docs/security.md", "Who can do what")}
    attacker = ""
    for row in ATTACKS:
        attacker = row[0] or attacker
        if row in succeed:
            assert operators[attacker].startswith("**"), f"{attacker}: what succeeds is in bold"
    assert succeed
