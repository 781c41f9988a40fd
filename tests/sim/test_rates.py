"""Rates that planners promise, by the simulator: no link above its capacity, and the rate reached."""

import pytest

from wiresum.cli.simulate import load
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.predict import predict
from wiresum.predict.cost import cost_of
from wiresum.sim import ScenarioFile, run
from wiresum.sim.planned import assigned

BYTES = 40_000_000
ROUNDING = 1e-6
PLANNERS = ("ingo", "r-ingo", "grid", "geryon", "atp", "switchml", "ps")
"""The first two and `geryon` choose ways; for the others, costs take those that the simulated network hashes to."""


def scenario(tmp_path, topology, planner):
    path = tmp_path / "it.toml"
    path.write_text(f"""
format = "wiresum-scenario/1"
topology = "{topology}"
fidelity = "flows"
[[job]]
planner = "{planner}"
bytes = {BYTES}
codec = "fixed:1000"
upload_only = true
""")
    return ScenarioFile.read(path)


def answered(file):
    """What the simulator reaches, and what the plan promises."""
    outcome = run(file, load)
    utilisations = [outcome.utilisation_of(link) for link in outcome.links]
    assert max(one for one in utilisations if one is not None) <= 1 + ROUNDING
    wire_bytes = next(link["wire_bytes"] for link in outcome.links if link["source"] == "w0")
    topology = load(file.scenario.topology)
    promised_bps = cost_of(assigned(topology, file.scenario.job[0]), predict=False).sending_rate_bps
    return 8 * wire_bytes / outcome.seconds_of("job")[0], promised_bps


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("topology", ["ingo:shape=star", "ingo:shape=ring", "ingo:shape=mesh", "goat"])
def test_a_plans_rate_is_reached_and_no_link_is_beyond_its_own(tmp_path, topology, planner):
    reached_bps, promised_bps = answered(scenario(tmp_path, topology, planner))
    assert reached_bps == pytest.approx(promised_bps, rel=ROUNDING)


@pytest.mark.parametrize(
    "topology", ["leaf-spine:leaves=4,spines=3,hosts_per_leaf=4,programmable=0.5", "fat-tree:k=4,programmable=0.5"]
)
@pytest.mark.parametrize("planner", ["atp", "ps", "goat"])
def test_every_link_carries_what_costs_say(tmp_path, topology, planner):
    """Also where there are several ways: predictions and the simulator hash alike."""
    file = scenario(tmp_path, topology, planner)
    network = load(topology)
    traffic = cost_of(assigned(network, file.scenario.job[0]), predict=False).traffic
    outcome = run(file, load)
    wire_bytes = {(link["link"], link["source"]): link["wire_bytes"] for link in outcome.links}
    factor = max(wire_bytes.values()) / traffic.arc_bytes.max()
    for arc, sent in enumerate(traffic.arc_bytes):
        key = network.links[arc // 2].id, traffic.graph.names[traffic.graph.source[arc]]
        assert wire_bytes.get(key, 0.0) == pytest.approx(factor * sent, rel=1e-3), key


@pytest.mark.parametrize(
    "topology", ["ingo:shape=ring", "leaf-spine:leaves=4,spines=3,hosts_per_leaf=3,programmable=0.5"]
)
def test_a_plan_with_ways_is_simulated_over_them(tmp_path, topology):
    network = load(topology).with_addresses()
    made = plan(network, Job(gradient_bytes=BYTES), PlanOptions(engine="udp"), "joint")
    made.write(tmp_path / "plan.json")
    text = f"""
format = "wiresum-scenario/1"
topology = "{topology}"
fidelity = "flows"
[[job]]
plan = "plan.json"
bytes = {BYTES}
"""
    (tmp_path / "it.toml").write_text(text)
    seconds = run(ScenarioFile.read(tmp_path / "it.toml"), load).seconds_of("job")[0]
    assert seconds == pytest.approx(predict(network, made, BYTES).seconds, rel=1e-3)
    assert seconds == pytest.approx(made.solution.value, rel=0.05)  # Headers are not in the value.
