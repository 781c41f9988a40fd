"""Rates that planners promise, by the simulator: no link above its capacity, and the rate reached."""

import pytest

from wiresum.cli.simulate import load
from wiresum.plan.assignment import cost_of
from wiresum.sim import ScenarioFile, run
from wiresum.sim.planned import assigned

pytest.importorskip("highspy", reason="the solver is not installed: `make build`")

BYTES = 40_000_000
ROUNDING = 1e-6
WAYS_CHOSEN = ("ingo", "r-ingo", "grid", "geryon")
"""`grid` chooses no ways, but no two switches here have several to choose from that matter to it."""


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


@pytest.mark.parametrize("planner", WAYS_CHOSEN)
@pytest.mark.parametrize("topology", ["ingo:shape=star", "ingo:shape=ring", "ingo:shape=mesh", "goat"])
def test_a_plans_rate_is_reached_and_no_link_is_beyond_its_own(tmp_path, topology, planner):
    reached_bps, promised_bps = answered(scenario(tmp_path, topology, planner))
    assert reached_bps == pytest.approx(promised_bps, rel=ROUNDING)


@pytest.mark.parametrize("planner", ["atp", "switchml"])
def test_ways_that_nobody_chose_share_less_evenly_than_plans_suppose(tmp_path, planner):
    reached_bps, promised_bps = answered(scenario(tmp_path, "ingo:shape=ring", planner))
    assert promised_bps / 2 <= reached_bps <= promised_bps * (1 + ROUNDING)
