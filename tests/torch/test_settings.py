"""Settings, and the documentation of them."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from wiresum.errors import SettingError
from wiresum.torch.settings import MOST_NAMED, SETTINGS, TOLD, Settings, as_markdown, misspelt

SOURCES = Path(__file__).parents[2] / "python" / "wiresum"
DOCUMENT = Path(__file__).parents[2] / "docs" / "configuration.md"
GOOD = {
    "WIRESUM_PLAN": ("plan.json", Path("plan.json")),
    "WIRESUM_SECRET": ("0123456789abcdef" * 4, "0123456789abcdef" * 4),
    "WIRESUM_SECRET_FILE": ("plan.json.secret", Path("plan.json.secret")),
    "WIRESUM_JOB": ("7", 7),
    "WIRESUM_VALUES_PER_PACKET": ("352", 352),
    "WIRESUM_LANES": ("int16", "int16-le"),
    "WIRESUM_POLICY": ("cache", "cache"),
    "WIRESUM_WINDOW": ("64", 64),
    "WIRESUM_MIN_ELEMENTS": ("1", 1),
    "WIRESUM_JOIN_TIMEOUT_S": ("2.5", 2.5),
    "WIRESUM_DEAD_AFTER": ("0", 0.0),
    "WIRESUM_TRANSPORT": ("af_xdp", "af_xdp"),
    "WIRESUM_REQUIRE": ("1", True),
    "WIRESUM_FALLBACK": ("gloo", True),
    "WIRESUM_LOG": ("Debug", "debug"),
}
BAD = {
    "WIRESUM_SECRET": ("too short", "0123456789abcdeg"),
    "WIRESUM_JOB": ("-1", "one"),
    "WIRESUM_VALUES_PER_PACKET": ("0", "many"),
    "WIRESUM_LANES": ("int8", "auto-le"),
    "WIRESUM_POLICY": ("hash",),
    "WIRESUM_WINDOW": ("0",),
    "WIRESUM_MIN_ELEMENTS": ("0", "1e3"),
    "WIRESUM_JOIN_TIMEOUT_S": ("0", "-1", "nan", "inf", "soon"),
    "WIRESUM_DEAD_AFTER": ("0.4", "3601", "-1", "nan", "inf", "never"),
    "WIRESUM_TRANSPORT": ("tcp",),
    "WIRESUM_REQUIRE": ("maybe",),
    "WIRESUM_FALLBACK": ("nccl",),
    "WIRESUM_LOG": ("loud",),
}


def test_nothing_set_means_the_defaults() -> None:
    assert Settings.from_environment({}) == Settings()
    assert Settings.from_environment({"WIRESUM_PLAN": ""}) == Settings()


@pytest.mark.parametrize("name", GOOD)
def test_a_value_is_read(name: str) -> None:
    text, value = GOOD[name]
    field = next(setting.field for setting in SETTINGS if setting.name == name)
    assert getattr(Settings.from_environment({name: text}), field) == value


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BAD.items() for text in texts])
def test_a_senseless_value_is_named(name: str, text: str) -> None:
    with pytest.raises(SettingError, match=f"{name} is '{text}' but must be"):
        Settings.from_environment({name: text})


def test_contradictions_are_errors() -> None:
    with pytest.raises(SettingError, match="unset one"):
        Settings.from_environment({"WIRESUM_PLAN": "p", "WIRESUM_AGGREGATOR": "10.0.0.1:5747"})
    with pytest.raises(SettingError, match="set WIRESUM_SECRET_FILE"):
        Settings.from_environment({"WIRESUM_AGGREGATOR": "10.0.0.1:5747"})


def test_each_field_has_one_setting() -> None:
    assert sorted(setting.field for setting in SETTINGS) == sorted(field.name for field in fields(Settings))


def test_the_documentation_has_the_table() -> None:
    assert as_markdown() in DOCUMENT.read_text(), "run `python -m wiresum.torch.settings` and paste its output"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("WIRESUM_PLANN", "WIRESUM_PLAN"),
        ("WIRESUM_SECRETFILE", "WIRESUM_SECRET_FILE"),
        ("WIRESUM_JOIN_TIMEOUT", "WIRESUM_JOIN_TIMEOUT_S"),
        ("WIRESUM_MIN_ELEMENT", "WIRESUM_MIN_ELEMENTS"),
    ],
)
def test_a_name_that_is_no_setting_gets_the_nearest(name: str, meant: str) -> None:
    assert misspelt({name: "1", meant: "1"}) == [f"{name} is not a setting and does nothing; did you mean {meant}?"]


def test_a_name_that_is_like_no_setting_is_told_all_the_same() -> None:
    (told,) = misspelt({"WIRESUM_XYZZY": "1"})
    assert "docs/configuration.md" in told
    assert len(misspelt({f"WIRESUM_XYZZY{n}": "1" for n in range(100)})) == MOST_NAMED


def test_what_is_set_on_purpose_is_no_mistake() -> None:
    settings = [setting.name for setting in SETTINGS]
    assert misspelt(dict.fromkeys([*settings, *TOLD, "WIRESUM_TESTS_REQUIRE", "PATH"], "1")) == []


def test_each_variable_that_the_product_reads_or_sets_is_known() -> None:
    named = {
        node.value
        for path in SOURCES.rglob("*.py")
        if path.name != "settings.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and re.fullmatch(r"WIRESUM_[A-Z_]*[A-Z]", str(node.value))
    }
    assert named - {setting.name for setting in SETTINGS} - TOLD == set()
    assert named >= {"WIRESUM_PLANS", "WIRESUM_TESTBED"}
