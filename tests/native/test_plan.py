from __future__ import annotations

import json
import re
from typing import Any

import pytest

from wiresum import _native, errors


def test_a_good_plan_passes(unanswered_plan: dict[str, Any]) -> None:
    assert _native.validate_plan(json.dumps(unanswered_plan)) is None


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("codec", "base64", "job.codec"),
        ("codec", "fixed:nan", "job.codec"),
        ("secret", "short", "job.secret"),
        ("values_per_packet", 5, "job.values_per_packet"),
    ],
)
def test_a_bad_field_is_named(unanswered_plan: dict[str, Any], field: str, value: Any, named: str) -> None:
    unanswered_plan["job"][field] = value
    text = json.dumps(unanswered_plan)
    wrong, problem = _native.validate_plan(text)
    assert (wrong, bool(problem)) == (named, True)
    for function in (_native.plan_digest, _native.derive_plan):
        with pytest.raises(errors.PlanError, match=f"`{named}`: {re.escape(problem)}"):
            function(text)


def test_text_that_is_no_plan() -> None:
    field, problem = _native.validate_plan("{}")
    assert field == ""
    assert "line 1" in problem


def test_digest_is_of_what_all_must_agree_on(unanswered_plan: dict[str, Any]) -> None:
    digest = _native.plan_digest(json.dumps(unanswered_plan))
    unanswered_plan["nodes"][0]["address"] = "10.0.0.9:5747"
    assert _native.plan_digest(json.dumps(unanswered_plan)) == digest
    unanswered_plan["streams"][1]["window"] -= 1
    assert _native.plan_digest(json.dumps(unanswered_plan)) != digest
