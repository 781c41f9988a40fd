"""The shape that every benchmark's JSON has."""

from __future__ import annotations

from wiresum.bench.result import Limit, Ratio, Report, Result


def test_json_has_the_documented_keys():
    report = Report(
        "b", {"n": 1}, [Result("r", "s", [3.0, 1.0, 2.0], {"more": 7})], [Ratio("r / s", 2.0)], Limit(0.5, "s", "why")
    )
    content = report.to_json()
    assert list(content) == ["benchmark", "parameters", "machine", "results", "limit", "ratios", "notes"]
    assert content["results"] == [
        {"name": "r", "median": 2.0, "min": 1.0, "max": 3.0, "unit": "s", "runs": [3.0, 1.0, 2.0], "more": 7}
    ]
    assert content["machine"]["cores"] >= 1


def test_no_limit_no_key():
    assert "limit" not in Report("b", {}, []).to_json()
