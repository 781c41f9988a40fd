"""One scenario, three answers: what flows, packets and a live run must agree on."""

import json

import pytest
from typer.testing import CliRunner

from wiresum.cli.main import app
from wiresum.testbed.networks import why_no_namespaces

ROUNDS = 2
BYTES = 1_000_000
TEXT = f"""
format = "wiresum-scenario/1"
topology = "star:workers=2,rate=200mbit"
[[job]]
bytes = {BYTES}
rounds = {ROUNDS}
compute = {{ kind = "normal", mean_s = 0.05, deviation_s = 0.02 }}
"""
PROGRAM = f"""
format = "wiresum-scenario/1"
topology = "leaf-spine:leaves=2,spines=1,hosts_per_leaf=3,rate=1gbit,programmable=1"
fidelity = "trains"
[[job]]
planner = "ingo"
bytes = {BYTES}
rounds = {ROUNDS}
codec = "fixed:1000"
mtu_bytes = 1500
"""
PACKET_BYTES = 0.02
"""Flows leave out repeated packets and the 12 bytes that switches' packets have more."""
LIVE_BYTES = 0.5
"""Processes find each other over the same links, and a busy machine repeats packets."""


def answers(tmp_path, text, *more):
    path = tmp_path / "it.toml"
    path.write_text(text)
    shown = CliRunner().invoke(app, ["compare", str(path), "--json", *more])
    assert shown.exit_code == 0, shown.output
    return {one["answer"]: one for one in json.loads(shown.stdout)}


def total(answer):
    return sum(link["wire_bytes"] for link in answer["links"])


def into(answer, target):
    return sum(link["wire_bytes"] for link in answer["links"] if link["target"] == target)


def test_flows_and_packets_agree_on_bytes_and_packets_are_not_quicker(tmp_path):
    given = answers(tmp_path, TEXT, "--no-live")
    assert set(given) == {"flows", "packets"}
    assert total(given["packets"]) == pytest.approx(total(given["flows"]), rel=PACKET_BYTES)
    for flow, packet in zip(given["flows"]["seconds"], given["packets"]["seconds"], strict=True):
        assert flow <= packet * 1.001


def test_a_live_run_has_the_bytes_of_the_simulation(tmp_path):
    if problem := why_no_namespaces():
        pytest.skip(problem)
    given = answers(tmp_path, TEXT, "--engine", "udp")
    live = given["live"]
    assert live["refusal"] is None
    assert len(live["seconds"]) == ROUNDS
    gradients = 2 * 2 * ROUNDS * BYTES
    assert gradients < total(live) < total(given["packets"]) * (1 + LIVE_BYTES)


def test_switch_programs_are_asked_of_two_and_the_third_says_why_not(tmp_path):
    given = answers(tmp_path, PROGRAM)
    assert "switch programs run in simulation only" in given["live"]["refusal"]
    # Results are copied by switches in trains, and by whoever sums in flows: contributions are what both have.
    assert into(given["trains"], "ps") == pytest.approx(into(given["flows"], "ps"), rel=PACKET_BYTES)


def test_several_jobs_are_not_run_live(tmp_path):
    second = TEXT.split("\n", 3)[3].replace("[[job]]", '[[job]]\nname = "two"')
    given = answers(tmp_path, TEXT + second)
    assert "one job at a time" in given["live"]["refusal"]


@pytest.mark.parametrize("given", [[], ["x.toml", "--planners", "ps"], ["--planners", "ps"]])
def test_what_is_compared_has_to_be_clear(given):
    refused = CliRunner().invoke(app, ["compare", *given])
    assert refused.exit_code == 2
    assert "planners" in refused.output
