"""Daemons of a tree on the loopback interface: every verb of a deployment, and what it says when one fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from wiresum.deploy.deployment import Deployment
from wiresum.deploy.hosts import ThisHost, on_loopback
from wiresum.errors import ControlError, DeploymentError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.topology.generators.xagg import xagg

NODES = {"PS", "S1", "S2"}
QUOTA = {"bytes_per_second": 10**6}


def tree(job: int = 1) -> AggregationPlan:
    return plan(xagg(), Job(id=job), PlanOptions(engine="udp"))


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    with Deployment(ThisHost(tmp_path), on_loopback(tree())) as running:
        yield running


def jobs(deployment: Deployment) -> dict[str, list[int]]:
    return {name: sorted(job["job"] for job in seen["jobs"]) for name, seen in deployment.status().items()}


def at_all(*numbers: int) -> dict[str, list[int]]:
    return {name: [*numbers] for name in NODES}


def test_jobs_come_and_go_at_all_nodes(deployment):
    assert jobs(deployment) == at_all(1)
    file = deployment.add(tree(2), QUOTA)
    assert AggregationPlan.read(file).job.id == 2
    assert jobs(deployment) == at_all(1, 2)
    deployment.remove(1)
    assert jobs(deployment) == at_all(2)
    with pytest.raises(DeploymentError, match="no daemon serves job 1"):
        deployment.remove(1)


@pytest.mark.parametrize("refusing", sorted(NODES))
def test_a_job_that_one_node_refuses_is_served_at_none(deployment, refusing):
    # The number of the job is taken there.
    taken = tree(2).model_copy(update={"nodes": deployment.plan.nodes})
    deployment.daemon(refusing).ask("add", plan=json.loads(taken.to_json()))
    with pytest.raises(ControlError, match=f"at {refusing}: .*job"):
        deployment.add(tree(2))
    assert jobs(deployment) == {name: [1, 2] if name == refusing else [1] for name in NODES}


def test_a_job_for_other_nodes_is_refused(deployment):
    stranger = _node("S1").model_copy(update={"name": "S9"})
    with pytest.raises(DeploymentError, match="is at S9; there are PS, S"):
        deployment.add(tree(2).model_copy(update={"nodes": [stranger]}))
    misnumbered = _node("S1").model_copy(update={"id": 7})
    with pytest.raises(DeploymentError, match="S1 is node 7 of this plan; number"):
        deployment.add(tree(2).model_copy(update={"nodes": [misnumbered]}))


def test_a_successor_has_the_jobs_and_another_process(deployment):
    deployment.add(tree(2))
    before = deployment.daemon("S1").process
    assert deployment.upgrade("S1") >= 0
    assert before.returncode == 0
    assert deployment.status()["S1"]["process"] == deployment.daemon("S1").process.pid != before.pid
    assert jobs(deployment) == at_all(1, 2)


def test_a_daemon_that_died_is_known_and_comes_back_with_its_jobs(deployment):
    deployment.add(tree(2), QUOTA)
    deployment.daemon("S1").kill()
    assert set(deployment.dead()) == {"S1"}
    with pytest.raises(ControlError, match="wiresum-node at S1: nobody answers"):
        deployment.status()
    deployment.revive("S1")
    assert deployment.dead() == {}
    assert jobs(deployment) == at_all(1, 2)
    (added,) = [job for job in deployment.status()["S1"]["jobs"] if job["job"] == 2]
    assert added["quota"]["bytes_per_second"] == QUOTA["bytes_per_second"]


def test_another_plan_takes_the_place_of_the_first_under_its_file(deployment):
    former = {daemon.process for daemon in deployment.daemons.values()}
    counters = deployment.replace(on_loopback(tree(3)))
    assert {process.returncode for process in former} == {0}
    assert all(counted["verdicts"] for counted in counters.values())
    assert AggregationPlan.read(deployment.plan_file).job.id == 3
    assert jobs(deployment) == at_all(3)


def test_nothing_stays_of_a_start_that_failed(deployment, tmp_path):
    """The second deployment's ports are taken at one node only, after the others have started."""
    ports = {node.name: node.address for node in deployment.plan.nodes}
    nodes = [
        node.model_copy(update={"address": ports["S2"]}) if node.name == "S2" else node
        for node in on_loopback(tree()).nodes
    ]
    folder = tmp_path / "second"
    folder.mkdir()
    second = Deployment(ThisHost(folder), deployment.plan.model_copy(update={"nodes": nodes}))
    with pytest.raises(DeploymentError, match=r"wiresum-node at S2 ended with 1: .*in use"):
        second.start()
    assert second.daemons == {}
    assert list(folder.glob("*.sock")) == []
    assert jobs(deployment) == at_all(1), "the first goes on"


def test_a_node_that_is_not_there_is_named(deployment):
    for act in (deployment.daemon, deployment.upgrade, deployment.revive):
        with pytest.raises(DeploymentError, match="no daemon of this deployment is at S9; there are"):
            act("S9")
    deployment.stop()
    with pytest.raises(DeploymentError, match="start the deployment"):
        deployment.daemon("S1")


def _node(name: str):
    return next(node for node in tree().nodes if node.name == name)
