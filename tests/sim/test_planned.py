"""Planners' assignments as switch programs: exact sums, the bytes that plans predict, the papers' small examples."""

import math

import pytest

from wiresum.cli.simulate import load
from wiresum.errors import ScenarioError, SimulationError
from wiresum.plan.fabric import PACKET_OVERHEAD
from wiresum.planners import SWITCH_PLANNERS
from wiresum.predict.cost import cost_of
from wiresum.sim import ScenarioFile, run
from wiresum.sim.planned import assigned

BYTES = 400_000
VALUES = 352
"""Values of a packet of 1500 bytes."""
PACKET_BYTES = PACKET_OVERHEAD + 4 * VALUES
ROUNDS = 2
NETWORK = "leaf-spine:leaves=2,spines=2,hosts_per_leaf=4,rate=1gbit,programmable=1,memory=64MB"
TEXT = f"""
format = "wiresum-scenario/1"
topology = "{NETWORK}"
fidelity = "trains"
train = 16
check_sums = true
[[job]]
planner = "goat"
model = "resnet18"
parts = 8
bytes = {BYTES}
rounds = {ROUNDS}
window = 64
mtu_bytes = 1500
[job.program]
timeout_s = 0.2
"""
FIGURE_2 = f"""
format = "wiresum-scenario/1"
topology = "goat:hosts_per_switch=2,memory={4 * VALUES}B,rate=10gbit"
fidelity = "trains"
train = 1
check_sums = true
[[job]]
planner = "goat"
parts = 3
bytes = {3 * 4 * VALUES}
mtu_bytes = 1500
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "it.toml"
    path.write_text(TEXT)
    return path


def simulated(path, **changes):
    return run(ScenarioFile.read(path, {key.replace("__", "."): value for key, value in changes.items()}), load)


def packets(outcome, **ends):
    """That crossed links with these ends."""
    wanted = [link for link in outcome.links if all(link[end] in names for end, names in ends.items())]
    return round(sum(link["wire_bytes"] for link in wanted) / PACKET_BYTES)


@pytest.mark.parametrize("planner", SWITCH_PLANNERS)
def test_every_planners_assignment_sums_exactly(scenario, planner):
    outcome = simulated(scenario, job__0__planner=planner)
    fragments = math.ceil(BYTES / 4 / VALUES)
    assert outcome.end["checked_values"] == ROUNDS * 7 * fragments


@pytest.mark.parametrize("planner", ["goat", "ps"])
def test_the_server_gets_what_the_plan_predicts(scenario, planner):
    changes = {"job.0.planner": planner, "links.queue_bytes": 100_000_000}
    file = ScenarioFile.read(scenario, changes)
    into = packets(run(file, load), target=["ps"])
    answer = assigned(load(NETWORK), file.scenario.job[0])
    fragments = math.ceil(BYTES / 4 / VALUES)
    models = cost_of(answer, predict=False).server_ingress_bytes / answer.instance.model_bytes
    # Shares are cut at whole fragments: one more for each of eight parts and seven workers, at most.
    assert into / ROUNDS == pytest.approx(models * fragments, abs=56)
    assert into / ROUNDS >= fragments


def test_goat_figure_2_three_fragments_at_the_server_thirteen_out_of_switches(tmp_path):
    path = tmp_path / "figure.toml"
    path.write_text(FIGURE_2)
    outcome = simulated(path)
    switches = ["S1", "S2", "S3"]
    assert packets(outcome, target=["ps"]) == 3
    assert packets(outcome, source=["w0", "w1", "w2", "w3"]) == 12
    # Each of three results crosses two links between switches.
    between = packets(outcome, source=switches, target=switches) - 3 * 2
    assert between + packets(outcome, target=["ps"]) == 13


def test_goat_figure_2_atp_sends_seven_fragments_to_the_server_seventeen_out_of_switches(tmp_path):
    path = tmp_path / "figure.toml"
    path.write_text(FIGURE_2)
    late = {"kind": "constant", "seconds": 1e-4}
    starts = {"job.0.starts": {"w1": late, "w3": late}}
    program = {"policy": "hash", "server": "ps", "slots": 1}
    outcome = run(ScenarioFile.read(path, {"job.0.planner": "direct", "job.0.program": program, **starts}), load)
    switches = ["S1", "S2", "S3"]
    assert packets(outcome, target=["ps"]) == 7
    between = packets(outcome, source=switches, target=switches) - 3 * 2
    assert between + packets(outcome, target=["ps"]) == 17


def test_a_job_that_names_no_server_names_its_planners(scenario):
    with pytest.raises(
        ScenarioError, match=r":15: policy: is missing; add it, or give the job one of the planners goat"
    ):
        simulated(scenario, job__0__planner="direct")


def test_a_planner_and_a_server_contradict_each_other(scenario):
    with pytest.raises(ScenarioError, match="server: the planner goat says where it is summed; remove it"):
        simulated(scenario, job__0__program__server="ps")


CROWD = NETWORK.replace("hosts_per_leaf=4", "hosts_per_leaf=35")
"""A network of two cohorts: 69 workers and a server."""


@pytest.mark.parametrize("planner", ["goat", "atp", "esa", "ingo", "p4inc-aoi", "switchml", "ps"])
def test_sums_of_several_cohorts_meet_at_the_server(scenario, planner):
    outcome = simulated(scenario, topology=CROWD, job__0__planner=planner, job__0__bytes=BYTES // 8)
    fragments = math.ceil(BYTES / 8 / 4 / VALUES)
    assert outcome.end["checked_values"] == ROUNDS * 69 * fragments
    assert packets(outcome, target=["ps"]) >= 2 * ROUNDS * fragments


def test_packets_at_switches_count_255_workers(scenario):
    with pytest.raises(SimulationError, match="299 workers, and packets at switches count 255"):
        simulated(scenario, topology=NETWORK.replace("hosts_per_leaf=4", "hosts_per_leaf=150"))
