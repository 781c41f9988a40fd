"""Runs from a file: the same answers at both fidelities, the same trace from the same seed, sweeps that go on."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wiresum import wire
from wiresum.cli.main import app
from wiresum.cli.simulate import load
from wiresum.errors import SimulationError
from wiresum.plan.choices import COLLECTIVES
from wiresum.plan.exchanges import servers_of
from wiresum.plan.job import Job
from wiresum.planners import plan
from wiresum.predict import predict
from wiresum.predict.collectives import predict_collective
from wiresum.sim import ScenarioFile, plot, run
from wiresum.sim.sweep import Sweep
from wiresum.wire import POLICIES

BYTES = 4_000_000
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
TEXT = f"""
format = "wiresum-scenario/1"
topology = "star:workers=4,rate=1gbit"
[[job]]
bytes = {BYTES}
rounds = 2
"""
TOPOLOGIES = {
    "star": "star:workers=4,rate=1gbit",
    "servers": "servers:workers=4,servers=1,rate=1gbit",
    "xagg": "xagg",
    "stragglers": "stragglers",
}
TOLERANCE = 0.04
"""What flows leave out: delay, the preamble's round trip, the first packet's way."""
COLLECTIVE_TOLERANCE = 0.1
"""Barriers and their round trips as well."""
SERVERS_TOLERANCE = 0.25
"""What is exchanged both ways over the links of servers, and queues there, too."""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "it.toml"
    path.write_text(TEXT)
    return path


def simulated(path, **changes):
    return run(ScenarioFile.read(path, changes), load)


@pytest.mark.parametrize("policy", ["pool", "cache"])
@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_packets_flows_and_the_prediction_agree(scenario, topology, policy):
    changes = {"topology": topology, "job.0.policy": policy, "job.0.bytes": 4 * BYTES}
    packets = simulated(scenario, **changes).seconds_of("job")[-1]
    flows = simulated(scenario, fidelity="flows", **changes).seconds_of("job")[-1]
    network = load(topology)
    predicted = predict(network, plan(network, Job(policy=policy)), 4 * BYTES).seconds
    assert flows == pytest.approx(predicted, rel=1e-6)
    assert flows <= packets * 1.001
    assert packets == pytest.approx(flows, rel=TOLERANCE)


@pytest.mark.parametrize("collective", [name for name in COLLECTIVES if name != "all_reduce"])
def test_collectives_in_packets_flows_and_the_prediction_agree(scenario, collective):
    changes = {"job.0.collective": collective, "job.0.copies": True, "job.0.bytes": 4 * BYTES, "check_sums": True}
    packets, flows = (simulated(scenario, fidelity=fidelity, **changes) for fidelity in ("packets", "flows"))
    network = load("star:workers=4,rate=1gbit")
    predicted = predict_collective(network, plan(network, Job(copies=True)), 4 * BYTES, collective).seconds
    assert flows.seconds_of("job")[-1] == pytest.approx(predicted, rel=1e-6)
    assert flows.seconds_of("job")[-1] <= packets.seconds_of("job")[-1] * 1.001
    assert packets.seconds_of("job")[-1] == pytest.approx(predicted, rel=COLLECTIVE_TOLERANCE)
    assert packets.end["checked_values"] > 0


@pytest.mark.parametrize("collective", ["reduce_scatter", "all_gather", "pair", "broadcast", "gather", "scatter"])
def test_what_several_servers_exchange_in_packets_flows_and_the_prediction_agrees(scenario, collective):
    topology = "servers:workers=4,servers=3,rate=1gbit"
    changes = {
        "topology": topology, "job.0.collective": collective, "job.0.copies": True, "job.0.bytes": 4 * BYTES,
        "job.0.planner": "byteps", "check_sums": True,
    }  # fmt: skip
    packets, flows = (simulated(scenario, fidelity=fidelity, **changes) for fidelity in ("packets", "flows"))
    made = plan(load(topology), Job(copies=True), planner="byteps")
    assert len(servers_of(made)) == 3
    predicted = predict_collective(load(topology), made, 4 * BYTES, collective).seconds
    assert flows.seconds_of("job")[-1] == pytest.approx(predicted, rel=1e-6)
    assert flows.seconds_of("job")[-1] <= packets.seconds_of("job")[-1] * 1.001
    assert packets.seconds_of("job")[-1] == pytest.approx(predicted, rel=SERVERS_TOLERANCE)
    alone = predict_collective(
        load(topology), plan(load(topology), Job(copies=True, copy_servers=1), planner="byteps"), 4 * BYTES, collective
    ).seconds
    # In a gather and a scatter the root's link limits, however many servers there are.
    assert packets.seconds_of("job")[-1] < alone or collective in ("gather", "scatter")


def test_packets_of_9000_bytes_spare_headers(scenario):
    def seconds(fidelity: str, *, jumbo: bool) -> float:
        changes = {"job.0.bytes": 4 * BYTES, "job.0.mtu_bytes": 9000, "job.0.jumbo": jumbo}
        return simulated(scenario, fidelity=fidelity, **changes).seconds_of("job")[-1]

    headers = wire.ETHERNET_LEN + wire.IPV4_LEN + wire.UDP_LEN + wire.HEADER_LEN
    long, short = 1 + headers / wire.MAX_PAYLOAD, 1 + headers / wire.PAGE_PAYLOAD
    assert seconds("flows", jumbo=True) / seconds("flows", jumbo=False) == pytest.approx(long / short, rel=0.002)
    assert seconds("packets", jumbo=True) == pytest.approx(seconds("flows", jumbo=True), rel=TOLERANCE)


def test_sums_without_copies_are_an_all_reduce_on_the_wire(scenario):
    seconds = {
        collective: simulated(scenario, fidelity="flows", **{"job.0.collective": collective}).seconds_of("job")
        for collective in ("all_reduce", "reduce_scatter", "reduce")
    }
    assert seconds["reduce_scatter"] == seconds["reduce"] == seconds["all_reduce"]


def test_sums_are_compared(scenario):
    outcome = simulated(scenario, **{"check_sums": True, "links.loss": 0.01, "links.duplication": 0.01})
    assert outcome.end["checked_values"] == 2 * 4 * BYTES // 4
    assert outcome.count("added") > 0


def test_the_seed_is_all_that_a_run_depends_on(scenario):
    traces = [simulated(scenario, **{"links.loss": 0.01, "seed": seed}).end["trace"] for seed in (1, 1, 2)]
    assert traces[0] == traces[1] != traces[2]


def test_the_root_gets_each_workers_gradient(scenario):
    outcome = simulated(scenario)
    into = sum(link["wire_bytes"] for link in outcome.links if link["target"] == "switch")
    assert 2 * 4 * BYTES < into < 1.05 * 2 * 4 * BYTES


def test_a_job_that_cannot_go_on_names_who_is_missing(scenario):
    with scenario.open("a") as text:
        text.write('[[failure]]\nnode = "w2"\nat_s = 0.01\n')
    with pytest.raises(SimulationError, match=r"no progress since .*no contribution .*w2"):
        simulated(scenario, patience_s=1.0)


def test_a_sweep_goes_on_where_it_stopped(scenario, tmp_path):
    store = tmp_path / "results.jsonl"
    values = {"job.0.bytes": [400_000, 800_000], "fidelity": ["flows"]}
    first = Sweep(scenario, load, {**values, "job.0.bytes": [400_000]}, store)
    assert len(list(first.results())) == 1
    begun = store.read_text()
    results = list(Sweep(scenario, load, values, store).results())
    assert store.read_text().startswith(begun)
    assert len(store.read_text().splitlines()) == 2
    means = [result["summary"]["jobs"]["job"]["mean_s"] for result in results]
    assert means[1] == pytest.approx(2 * means[0], rel=0.01)


def test_the_command_prints_json_lines_and_pictures(scenario, tmp_path):
    lines, picture = tmp_path / "out.jsonl", tmp_path / "out.png"
    arguments = ["simulate", str(scenario), "--json", "--jsonl", str(lines), "--plot", str(picture)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)["round"]) == 2
    records = [json.loads(line)["record"] for line in lines.read_text().splitlines()]
    assert records[-1] == "end"
    assert picture.stat().st_size > 0


def test_a_timeline_has_what_crossed_each_link(scenario):
    outcome = run(ScenarioFile.read(scenario), load, timeline=True)
    crossed = {(link["link"], link["source"]): link["wire_bytes"] for link in outcome.links}
    sliced = dict.fromkeys(crossed, 0.0)
    for part in outcome.slices:
        sliced[part["link"], part["source"]] += part["wire_bytes"]
    assert sliced == pytest.approx(crossed, rel=1e-6)
    assert not run(ScenarioFile.read(scenario), load).slices


def test_a_picture_has_workers_links_and_slots(tmp_path):
    changes = {"job.0.bytes": 400_000, "job.0.rounds": 2}
    outcome = run(ScenarioFile.read(EXAMPLES / "asynchrony.toml", changes), load, timeline=True)
    assert max(record["held"] for record in outcome.slots) > 0
    titles = [axes_title(panel) for _, panel in plot._panels(outcome)]
    assert [title.split(":")[0] for title in titles] == ["workers", "busiest links", "slots with unfinished sums"]
    plot.draw(outcome, tmp_path / "it.svg")
    assert "leaf0" in (tmp_path / "it.svg").read_text()


def axes_title(panel):
    """What a part of the picture says it is."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    panel(axes)
    plt.close(figure)
    return axes.get_title()


def test_the_command_shows_tables(scenario):
    result = CliRunner().invoke(app, ["simulate", str(scenario), "--set", "fidelity=flows"])
    assert result.exit_code == 0, result.output
    assert "w0 → switch" in result.stdout


@pytest.mark.parametrize("policy", [name for name, policy in POLICIES.items() if policy.is_exact])
def test_switch_programs_sum_exactly(policy):
    changes = {"job.0.program.policy": policy, "job.0.bytes": 400_000, "job.0.rounds": 2, "check_sums": True}
    if POLICIES[policy].is_addressed:
        changes["job.0.program.node"] = "leaf1"
    if POLICIES[policy].needs_server is False:
        changes["job.0.program.server"] = "spine0"
    outcome = run(ScenarioFile.read(EXAMPLES / "asynchrony.toml", changes), load)
    fragments = -(-400_000 // 1408)  # 352 values fill 1500 bytes
    assert outcome.end["checked_values"] == 2 * 9 * fragments
    assert outcome.count("added") > 0


def test_the_examples_can_be_simulated():
    for path in EXAMPLES.glob("*.toml"):
        whole = ScenarioFile.read(path).scenario
        small = {"rows.trace": "criteo:scale=0.01,batch=64"} if whole.rows else {"job.0.bytes": 100_000}
        assert run(ScenarioFile.read(path, {} if whole.circuits else small), load).rounds
