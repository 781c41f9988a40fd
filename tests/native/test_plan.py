from __future__ import annotations

import json
from typing import Any

import pytest

from wiresum import _native, errors


def test_a_good_plan_passes(unanswered_plan: dict[str, Any]) -> None:
    _native.validate_plan(json.dumps(unanswered_plan))


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("codec", "base64", "job"),
        ("codec", "fixed:nan", "job"),
        ("secret", "short", "job.secret"),
        ("values_per_packet", 5, "job.values_per_packet"),
    ],
)
def test_a_bad_field_is_named(unanswered_plan: dict[str, Any], field: str, value: Any, named: str) -> None:
    unanswered_plan["job"][field] = value
    for function in (_native.validate_plan, _native.plan_digest):
        with pytest.raises(errors.PlanError, match=f"`{named}`"):
            function(json.dumps(unanswered_plan))


def test_text_that_is_no_plan() -> None:
    with pytest.raises(errors.PlanError, match="line 1"):
        _native.validate_plan("{}")


def test_digest_is_of_what_all_must_agree_on(unanswered_plan: dict[str, Any]) -> None:
    digest = _native.plan_digest(json.dumps(unanswered_plan))
    unanswered_plan["nodes"][0]["address"] = "10.0.0.9:5747"
    assert _native.plan_digest(json.dumps(unanswered_plan)) == digest
    unanswered_plan["sub_models"][1]["window"] -= 1
    assert _native.plan_digest(json.dumps(unanswered_plan)) != digest
