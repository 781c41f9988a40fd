"""Attacks that the specification says are tried: each has a test that is there, and an attacker that operators know."""

import pytest
from tests.architecture.claims import is_there, named, rows

ATTACKS = rows("spec/security.md", "Attacks that are tried")


def test_every_attacker_is_tried():
    attackers = [row[0] for row in rows("docs/security.md", "Who can do what")]
    assert sorted(attackers) == sorted({row[0] for row in ATTACKS if row[0]})


@pytest.mark.parametrize(("file", "name"), named(row[3] for row in ATTACKS))
def test_every_test_of_an_attack_is_there(file, name):
    assert is_there(file, name), f"{file} has no test {name}"


def test_what_succeeds_is_said_to_operators():
    succeed = [row for row in ATTACKS if row[2].startswith("*succeeds*")]
    operators = {row[0]: row[1] for row in rows("docs/security.md", "Who can do what")}
    attacker = ""
    for row in ATTACKS:
        attacker = row[0] or attacker
        if row in succeed:
            assert operators[attacker].startswith("**"), f"{attacker}: what succeeds is in bold"
    assert succeed
