"""Every runner that needs no network takes every plan, or refuses it for a reason that is declared here."""

from __future__ import annotations

import pytest

from wiresum.cli.simulate import load
from wiresum.errors import PlanError, ScenarioError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import Engine
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import PLANNERS, plan
from wiresum.planners.fabrics import plan_switched
from wiresum.predict import predict
from wiresum.sim import ScenarioFile, run

BYTES = 200_000
TOPOLOGIES = ["goat:hosts_per_switch=2", "xagg", "leaf-spine:leaves=2,spines=2,hosts_per_leaf=2,programmable=1"]
RUNNERS = ["predict", "flows", "packets", "trains"]
TREE_IN_TRAINS = "servers sum in this plan"
"""Trains are of what switches sum."""

WITHOUT_SERVERS_BELOW = {"forest", "byteps", "joint", "goat", "krgs", "ps", "atp", "esa", "geryon", "auto"}
"""Planners that have no server of `xagg` sum below another node, which takes a switch."""


def made(planner: str, topology: str, kind: str, engine: Engine = "udp") -> AggregationPlan:
    """A planner's plan, for servers or for switches."""
    network, job = load(topology).with_addresses(), Job(gradient_bytes=BYTES, window=16, values_per_packet=64)
    options = PlanOptions(engine=engine, time_limit_s=5)
    if kind == "fabric":
        return plan_switched(network, job, options, planner)
    return plan(network, job, options, planner)


def unplanned(planner: str, topology: str, kind: str) -> str | None:
    """Why there is no such plan."""
    if planner in {"goat-async", "ksgd"}:
        return "give an evaluation"
    if planner == "direct" and topology != "xagg":
        return "must meet in one root"
    if kind == "fabric" and topology == "xagg" and planner not in WITHOUT_SERVERS_BELOW:
        return "is no switch|ends its sums at a switch"
    return None


def declared(runner: str, made: AggregationPlan, topology: str) -> str | None:
    """Why this runner refuses this plan; None where it takes it."""
    return TREE_IN_TRAINS if runner == "trains" and made.fabric is None else None


def carried_out(runner: str, made: AggregationPlan, topology: str, folder) -> float:
    """Seconds of an all-reduce."""
    if runner == "predict":
        return predict(load(topology).with_addresses(), made, BYTES).seconds
    made.write(folder / "plan.json")
    scenario = folder / "it.toml"
    scenario.write_text(
        f'''format = "wiresum-scenario/1"
topology = "{topology}"
fidelity = "{runner}"
[[job]]
plan = "plan.json"
bytes = {BYTES}
mtu_bytes = 1500
'''
    )
    outcome = run(ScenarioFile.read(scenario), load)
    return outcome.seconds_of(outcome.jobs[0])[0]


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("planner", [*PLANNERS])
@pytest.mark.parametrize("kind", ["tree", "fabric"])
def test_every_runner_takes_every_plan_or_says_why_not(planner, topology, kind, tmp_path):
    without = unplanned(planner, topology, kind)
    if without is not None:
        with pytest.raises(PlanError, match=without):
            made(planner, topology, kind)
        return
    answer = made(planner, topology, kind)
    for runner in RUNNERS:
        why_not = declared(runner, answer, topology)
        if why_not is None:
            assert carried_out(runner, answer, topology, tmp_path) > 0
        else:
            with pytest.raises(ScenarioError, match=why_not):
                carried_out(runner, answer, topology, tmp_path)
