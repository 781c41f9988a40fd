"""One scenario, three answers: what flows, packets and a live run must agree on."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wiresum.cli.main import app

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
train = 1
[[job]]
planner = "ingo"
bytes = {BYTES}
rounds = {ROUNDS}
codec = "fixed:1000"
mtu_bytes = 1500
"""
MIXED = f"""
format = "wiresum-scenario/1"
topology = "star:workers=2,rate=20mbit,servers=1"
[rows]
trace = "criteo:scale=0.002,batch=64"
rounds = {ROUNDS}
dense_bytes = 200000
"""
SLOW = f"""
format = "wiresum-scenario/1"
topology = "racks:worker_racks=1,hosts_per_rack=3,rate=1gbit"
fidelity = "trains"
[[job]]
planner = "PLANNER"
bytes = {BYTES}
rounds = {ROUNDS}
"""
SHAPED = 0.85
"""A shaper lets 64 kB of a megabyte pass at once."""
EXACT = 1e-3
"""Packets are whole, and at the end of a stream not full."""
PACKET_BYTES = 0.02
"""Flows leave out repeated packets."""


def answers(tmp_path, text, *more):
    path = tmp_path / "it.toml"
    path.write_text(text)
    shown = CliRunner().invoke(app, ["compare", str(path), "--json", *more])
    assert shown.exit_code == 0, shown.output
    return {one["answer"]: one for one in json.loads(shown.stdout)}


def total(answer):
    return sum(link["wire_bytes"] for link in answer["links"])


def test_flows_and_packets_agree_on_bytes_and_packets_are_not_quicker(tmp_path):
    given = answers(tmp_path, TEXT, "--no-live")
    assert set(given) == {"flows", "packets"}
    assert total(given["packets"]) == pytest.approx(total(given["flows"]), rel=PACKET_BYTES)
    for flow, packet in zip(given["flows"]["seconds"], given["packets"]["seconds"], strict=True):
        assert flow <= packet * 1.001


@pytest.mark.needs("namespaces")
def test_a_live_run_has_the_bytes_of_the_simulation(tmp_path):
    given = answers(tmp_path, TEXT, "--engine", "udp")
    live = given["live"]
    assert live["refusal"] is None
    assert len(live["seconds"]) == ROUNDS
    assert total(live) > 2 * 2 * ROUNDS * BYTES, "gradients alone are more"


@pytest.mark.needs("namespaces")
def test_a_dense_gradient_beside_rows_runs_live_with_the_bytes_of_flows(tmp_path):
    given = answers(tmp_path, MIXED, "--engine", "udp")
    assert any("prediction" in note for note in given["flows"]["notes"])
    assert given["packets"]["refusal"] is None
    assert len(given["packets"]["seconds"]) == ROUNDS
    assert given["live"]["refusal"] is None
    assert len(given["live"]["seconds"]) == ROUNDS
    # Processes find each other, and a busy machine repeats packets.
    assert total(given["live"]) > total(given["flows"])
    # A round that began late at some worker is short, and the one before it long.
    assert sum(given["live"]["seconds"]) > sum(given["flows"]["seconds"]) * SHAPED


def test_switch_programs_have_the_bytes_of_flows_on_every_link(tmp_path):
    given = answers(tmp_path, PROGRAM, "--no-live")
    flows, trains = (
        {(link["link"], link["target"]): link["wire_bytes"] for link in given[name]["links"]}
        for name in ("flows", "trains")
    )
    assert trains == pytest.approx(flows, rel=EXACT)


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize("planner", ["p4inc-aoi", "switchml"])
def test_switch_programs_run_live_with_the_bytes_of_the_simulation(tmp_path, planner):
    text = SLOW.replace("PLANNER", planner)
    given = answers(tmp_path, text)
    live = given["live"]
    assert live["refusal"] is None
    assert len(live["seconds"]) == ROUNDS
    # At a tenth of the rates, which times do not show: as slow as the links, apart from their shapers' buckets.
    assert any("10 times slower" in note for note in live["notes"])
    most = max(given["flows"]["seconds"])
    assert min(live["seconds"]) > most * SHAPED
    # Processes find each other, and a busy machine repeats packets; tests/testbed/test_fabric.py counts every byte.
    assert total(live) > total(given["trains"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ('planner = "ingo"', 'planner = "ingo"\nprogram = { once = true }'),
    ],
    ids=["once"],
)
def test_what_a_testbed_of_switches_cannot_do_is_said(tmp_path, change, words):
    given = answers(tmp_path, PROGRAM.replace(change, words, 1))
    assert given["live"]["refusal"].endswith("remove it")


def test_a_folder_of_scenarios_is_one_table(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(PROGRAM)
    shown = CliRunner().invoke(app, ["compare", str(tmp_path), "--no-live", "--json"])
    assert shown.exit_code == 0, shown.output
    asked = json.loads(shown.stdout)
    assert [one["scenario"] for one in asked] == ["one", "two"]
    assert all(difference["is_within"] for one in asked for difference in one["differences"])
    assert "one" in CliRunner().invoke(app, ["compare", str(tmp_path), "--no-live"]).stdout


def test_answers_that_are_too_far_apart_end_with_an_error(tmp_path):
    # Trains are stored whole at each hop, which counts where a round takes milliseconds.
    (tmp_path / "it.toml").write_text(PROGRAM.replace("train = 1", "train = 64"))
    shown = CliRunner().invoke(app, ["compare", str(tmp_path), "--no-live"])
    assert shown.exit_code == 1
    assert "!" in shown.stdout


def test_every_testbed_has_a_scenario_that_can_be_simulated():
    folder = Path(__file__).parents[2] / "docs/examples/testbeds"
    shown = CliRunner().invoke(app, ["compare", str(folder), "--no-live", "--json"])
    assert shown.exit_code == 0, shown.output
    asked = {one["scenario"]: one for one in json.loads(shown.stdout)}
    assert {"star", "servers", "xagg", "goat-figure-2", "goat", "ingo-star", "ingo-ring", "ingo-mesh", "racks"} <= set(
        asked
    )
    assert not [name for name, one in asked.items() for answer in one["answers"] if answer["refusal"]]


def test_several_jobs_are_not_run_live(tmp_path):
    second = TEXT.split("\n", 3)[3].replace("[[job]]", '[[job]]\nname = "two"')
    given = answers(tmp_path, TEXT + second)
    assert "one job at a time" in given["live"]["refusal"]


@pytest.mark.parametrize(("collective", "live"), [("fsdp", "fsdp"), ("pair", "collectives")])
def test_what_other_benchmarks_run_live_is_compared_in_simulation(tmp_path, collective, live):
    given = answers(tmp_path, f'{TEXT}copies = true\ncollective = "{collective}"\n')
    assert given["live"]["refusal"].endswith(f"`wiresum bench {live}` runs {collective} live")
    assert total(given["packets"]) == pytest.approx(total(given["flows"]), rel=PACKET_BYTES)


@pytest.mark.parametrize("given", [[], ["x.toml", "--planners", "ps"], ["--planners", "ps"]])
def test_what_is_compared_has_to_be_clear(given):
    refused = CliRunner().invoke(app, ["compare", *given])
    assert refused.exit_code == 2
    assert "planners" in refused.output
