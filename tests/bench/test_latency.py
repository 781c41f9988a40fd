"""Small collectives: what a report says of made-up runs, options that are refused, and a tiny run."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from wiresum.bench.latency.command import Options, parse_collectives, parse_floats
from wiresum.bench.latency.measure import cases, ours, place, ratios, to_results
from wiresum.cli.main import app

RUNS = [
    {
        "collective": "all_reduce" if elements else "barrier",
        "elements": elements,
        "backend": backend,
        "microseconds": microseconds,
        "reasons": reasons,
    }
    for elements, backend, microseconds, reasons in [
        (0, "wiresum", 300.0, {"collective": 20}),
        (0, "gloo", 200.0, {}),
        (512, "wiresum", 90.0, {"summed": 20}),
        (512, "gloo", 100.0, {}),
        (512, "wiresum", 110.0, {"summed": 19, "not_finite": 1}),
        (512, "gloo", 300.0, {}),
    ]
]


def test_results_have_their_case_and_who_did_it():
    first, *_ = results = to_results(4, RUNS)
    assert [result.name for result in results] == [
        "4 ranks, barrier: wiresum",
        "4 ranks, barrier: gloo",
        "4 ranks, all_reduce of 2048 B: wiresum",
        "4 ranks, all_reduce of 2048 B: gloo",
    ]
    assert first.extra == {
        "collective": "barrier", "bytes": 0, "workers": 4, "backend": "wiresum", "reasons": {"collective": 20}
    }  # fmt: skip
    assert results[2].runs == [90.0, 110.0]


def test_ratios_are_over_the_rival_of_the_same_case():
    other = [{**run, "microseconds": 2 * run["microseconds"]} for run in RUNS if run["backend"] == "gloo"]
    found = {r.name: r.value for r in ratios([*to_results(4, RUNS), *to_results(8, other)])}
    assert found == {
        "4 ranks, barrier: wiresum / gloo": pytest.approx(1.5),
        "4 ranks, all_reduce of 2048 B: wiresum / gloo": pytest.approx(0.5),
    }


def test_each_case_says_where_it_went():
    barrier, summed = map(place, ours(to_results(4, RUNS)))
    assert barrier.startswith("4 ranks, barrier: 20 × collective: Gloo did it")
    assert "39 × summed: It was summed in the network." in summed
    assert "1 × not_finite: Gloo summed it again" in summed


@pytest.mark.parametrize("given", ["2B", "4B,6B", "1KiB,1023B"])
def test_sizes_are_whole_elements(given):
    with pytest.raises(typer.BadParameter, match="no whole number of float32"):
        parse_floats(given)


def test_collectives_have_names():
    with pytest.raises(typer.BadParameter, match="all_to_all is none of barrier, all_reduce"):
        parse_collectives("all_gather,all_to_all")


def test_parts_of_a_reduce_scatter_are_even():
    options = Options(collectives=("barrier", "reduce_scatter", "all_gather", "scatter"), sizes=(4, 64, 1020))
    found = list(cases(options, 8))
    assert found == [
        ("barrier", 0),
        *[("reduce_scatter", n) for n in (8, 16, 248)],
        *[("all_gather", n) for n in (1, 16, 255)],
        *[("scatter", n) for n in (8, 16, 248)],
    ]


def test_groups_have_members():
    done = CliRunner().invoke(app, ["bench", "latency", "--workers", "4,1"])
    assert done.exit_code != 0
    assert "4,1 is not a list of numbers from 2 up" in " ".join(done.output.split())


def tiny(*options):
    """Who did each collective of two ranks, by bytes."""
    words = ["bench", "latency", "--quick", "--calls", "5", "--engine", "udp", "--json", *options]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    results = json.loads(done.stdout)["results"]
    assert all(result["median"] > 0 for result in results)
    return {result["bytes"]: set(result["reasons"]) for result in results if result["backend"] == "wiresum"}


@pytest.mark.needs("namespaces")
def test_a_tiny_run_tells_shares_from_sums():
    assert tiny() == {0: {"shared"}, 4: {"shared"}, 2048: {"summed"}}


@pytest.mark.needs("namespaces")
def test_the_network_may_be_given_every_sum():
    assert tiny("--min-elements", "1") == {0: {"shared"}, 4: {"summed"}, 2048: {"summed"}}


@pytest.mark.needs("namespaces")
def test_every_kind_is_one_exchange_and_checked():
    kinds = "broadcast,reduce,reduce_scatter,all_gather,gather,scatter"
    words = ["bench", "latency", "--quick", "--calls", "5", "--engine", "udp", "--json", "--collectives", kinds]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    results = [result for result in json.loads(done.stdout)["results"] if result["backend"] == "wiresum"]
    assert {result["collective"] for result in results} == set(kinds.split(","))
    small = [result for result in results if result["bytes"] <= 8]
    assert all(set(result["reasons"]) == {"shared"} for result in small), small
