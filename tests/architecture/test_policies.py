"""A slot policy is its three programs and one row in `crates/wire`; nothing else of the product knows its name."""

import re
from pathlib import Path

import pytest

from wiresum.plan.choices import Policy as ServerPolicy
from wiresum.wire import POLICIES

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "crates/wire/src/policy.rs"
ROW = re.compile(r'^ +(?P<variant>\w+) "(?P<name>[\w-]+)" (?P<module>\w+), "(?P<kernel>\w+)": \{', re.MULTILINE)
ROWS = {row["name"]: row for row in ROW.finditer(TABLE.read_text())}
SERVERS = set(ServerPolicy.__args__)
"""Servers have these as well, and jobs say which of them."""
OTHER_WORDS = {"exclusive", "register", "hash"}
"""Python has these words for an allocation of memory, a function and a kind of record in Redis, too."""
MAY_NAME = {
    "crates/wire/src/policy.rs": "the table",
    "python/wiresum/wire.py": "generated from the table",
    "python/wiresum/planners/__init__.py": "each planner names the policy that its paper has",
    "python/wiresum/circuits/emulator/sonic.py": "Redis has a type that is called hash",
    "python/wiresum/turns/maker.py": "jobs in turns need segments that are given at run time",
    "crates/switch/src/keyed/program.rs": "an array of cells is called a register",
    "crates/keys/src/keyring.rs": "a key by which values are hashed has this label",
    "crates/plan/src/sparse.rs": "hot rows need a slot for each position",
    "crates/node/src/station/kernel.rs": "a switch that starts without a plan needs some program",
}
PRODUCT = ("crates/*/src/**/*.rs", "crates/*/build.rs", "python/wiresum/**/*.py", "bpf/**/*.[ch]", "p4/**/*.p4")
ASK_FOR_THEM = ("python/wiresum/bench/", "python/wiresum/reproduce/", "crates/bench/")
"""They measure particular policies."""


def programs(name):
    """A policy's own files: in Rust, for the kernel, in P4."""
    return {
        f"crates/switch/src/policy/{ROWS[name]['module']}.rs",
        f"bpf/switch/policy_{ROWS[name]['kernel']}.h",
        f"p4/policies/{name.replace('-', '_')}.p4",
    }


def product():
    for pattern in (
        "crates/*/src/**/*.rs",
        "crates/*/build.rs",
        "python/wiresum/**/*.py",
        "bpf/**/*.[ch]",
        "p4/**/*.p4",
    ):
        for path in ROOT.glob(pattern):
            place = str(path.relative_to(ROOT))
            is_test = path.name in {"tests.rs", "testing.rs"} or place.startswith("crates/testkit/")
            if not is_test and not place.startswith(ASK_FOR_THEM):
                yield place, path.read_text().partition("#[cfg(test)]\nmod tests {")[0]


def test_the_table_is_what_was_generated():
    assert list(ROWS) == list(POLICIES)


@pytest.mark.parametrize("name", ROWS)
def test_a_policy_has_its_three_programs(name):
    assert {place for place in programs(name) if not (ROOT / place).exists()} == set()


def test_every_program_in_the_kernel_is_one_of_a_policy():
    headers = {f"bpf/switch/{path.name}" for path in (ROOT / "bpf/switch").glob("policy_*.h")}
    assert headers <= set.union(*map(programs, ROWS))


@pytest.mark.parametrize("name", sorted(set(ROWS) - SERVERS))
def test_only_its_programs_and_the_table_know_a_policy(name):
    """A name in quotes or backquotes of code, the variant in Rust, or the name of a file to include."""
    in_rust = rf'"{name}"|\bPolicy::{ROWS[name]["variant"]}\b'
    elsewhere = rf"[\"']{name}[\"']|policy_{ROWS[name]['kernel']}\b|policies/{name.replace('-', '_')}\b"
    found = {
        place
        for place, text in product()
        if (place.endswith(".rs") or name not in OTHER_WORDS)
        and re.search(in_rust if place.endswith(".rs") else elsewhere, re.sub(r"//.*", "", text))
    }
    assert found - programs(name) - set(MAY_NAME) == set()


@pytest.mark.parametrize("name", ROWS)
def test_a_policy_has_its_rows_in_the_specification(name):
    assert f"`{name}`" in (ROOT / "spec" / "switch.md").read_text()
