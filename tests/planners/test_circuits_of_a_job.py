"""One job over circuits: the oracle, and networks whose ports differ."""

import pytest
from typer.testing import CliRunner

from wiresum.cli.main import app
from wiresum.errors import TopologyError
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.schedule import Schedule
from wiresum.planners.joint.circuits import over_circuits
from wiresum.topology.generators.optical import optical

CIRCUIT_BPS = 1e9


def network(units, ports, **more):
    """Circuits are what limits it."""
    return optical(units, 1, 0, ports=ports, rate_bps=1e12, circuit_rate_bps=CIRCUIT_BPS, **more)


def without(topology, *links):
    """The topology without some fibres and their ports."""
    switch = topology.node("oxc")
    assert switch.oxc is not None
    ports = [port for port in switch.oxc.ports if port.link not in links]
    bare = switch.model_copy(update={"oxc": switch.oxc.model_copy(update={"ports": ports})})
    nodes = [bare if node is switch else node for node in topology.nodes]
    left = [link for link in topology.links if link.id not in links]
    return topology.model_copy(update={"nodes": nodes, "links": left})


@pytest.mark.parametrize(
    ("units", "ports"), [(2, 1), (2, 4), (3, 2), (3, 4), (4, 2), (4, 3), (4, 4), (5, 2), (5, 4), (6, 3), (6, 4), (8, 2)]
)
def test_trees_have_all_the_light_there_is(units, ports):
    """nP/2 circuits, of which each tree takes n - 1: nP/(2(n - 1)), twice what a ring over as many circuits has."""
    found = over_circuits(network(units, ports), Job(), PlanOptions())
    assert found.rate_bps / CIRCUIT_BPS == pytest.approx(units * ports / (2 * (units - 1)))
    assert found.bound_bps == pytest.approx(found.rate_bps)
    assert len(found.circuits) == units * ports // 2


@pytest.mark.parametrize("lost", [["u0-0"], ["u0-0", "u0-1"], ["u0-0", "u1-4", "u2-8"], ["u3-12", "u3-13", "u3-14"]])
def test_ports_that_differ_cost_no_more_than_they_must(lost):
    """No unit gets more than its ports carry, and no tree is without n - 1 circuits."""
    topology = without(network(4, 4), *lost)
    found = over_circuits(topology, Job(), PlanOptions())
    assert found.rate_bps <= found.bound_bps * (1 + 1e-9)
    assert found.rate_bps >= 0.75 * found.bound_bps
    ends = [link for circuit in found.circuits for link in circuit.links]
    assert len(ends) == len(set(ends))
    assert not set(ends) & set(lost)


def test_units_without_workers_of_the_job_stay_dark():
    job = Job(workers=["w0", "w2", "w3"])
    found = over_circuits(network(4, 2), job, PlanOptions())
    assert found.rate_bps / CIRCUIT_BPS == pytest.approx(3 * 2 / (2 * 2))
    assert not [link for circuit in found.circuits for link in circuit.links if link.startswith("u1-")]


def test_a_unit_without_ports_is_named():
    with pytest.raises(TopologyError, match="w1 is in no unit with a port"):
        over_circuits(without(network(3, 1), "u1-1"), Job(), PlanOptions())


def test_hosts_bound_it_where_circuits_do_not():
    slow = optical(4, 1, 0, ports=4, rate_bps=CIRCUIT_BPS, circuit_rate_bps=CIRCUIT_BPS)
    found = over_circuits(slow, Job(), PlanOptions())
    assert (found.rate_bps, found.bound_bps) == pytest.approx((CIRCUIT_BPS, CIRCUIT_BPS))


@pytest.mark.parametrize("more", [[], ["--switched", "auto"]])
def test_the_command_writes_a_schedule(tmp_path, more):
    file = tmp_path / "schedule.json"
    topology = tmp_path / "optical.json"
    topology.write_text(optical(4, 2, 1, ports=3).to_json())
    asked = ["plan", str(topology), "--planner", "joint", "--circuits", *more, "-o", str(file)]
    ran = CliRunner().invoke(app, asked)
    assert ran.exit_code == 0, ran.output
    interval = Schedule.read(file).intervals[0]
    assert len(interval.circuits) == 4 * 3 // 2
    lit = {
        link for plan in interval.plans.values() for one in plan.streams for leg in one.legs for link in leg.links or []
    }
    assert any(link.startswith("oxc.") for link in lit)


def test_other_planners_choose_no_circuits():
    ran = CliRunner().invoke(app, ["plan", "optical", "--planner", "direct", "--circuits"])
    assert ran.exit_code != 0
    assert "only `--planner joint`" in " ".join(ran.output.replace("│", " ").split())
