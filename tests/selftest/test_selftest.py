"""`wiresum selftest` from a worker's namespace, through nodes that work and nodes that do not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.capabilities import engines
from tests.cli.forks import wiresum

from wiresum import _native
from wiresum.deploy.deployment import Deployment
from wiresum.deploy.hosts import ThisHost, on_loopback
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg

WAIT_S = 120
"""A bound; each takes a few seconds."""
PATIENT, SHORT = ("--timeout", "30"), ("--timeout", "4")
"""Time for steps that end by themselves, and for those that end by their timeout."""
SELFTEST = [sys.executable, "-m", "wiresum", "selftest"]
Report = dict[str, Any]


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    made = on_loopback(plan(xagg(), Job(), PlanOptions(engine="udp")))
    with Deployment(ThisHost(tmp_path), made) as running:
        yield running


def selftest(plan_file: Path, options: tuple[str, ...] = PATIENT) -> tuple[int, Report]:
    asked = [*SELFTEST, str(plan_file), "--json", *options]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=WAIT_S, check=False)
    return done.returncode, json.loads(done.stdout)


def test_every_node_of_a_tree_sums_what_one_host_sends(deployment: Deployment):
    for _ in range(2):
        code, report = selftest(deployment.plan_file)
        assert (code, report["fine"], report["findings"]) == (0, True, [])
    assert [step["name"] for step in report["steps"]] == ["join", "one value", "full packets", "full windows"]
    counted = deployment.stop()
    assert all(one["verdicts"]["completed"] + one["verdicts"]["forwarded"] for one in counted.values())


def test_a_training_goes_on_beside_it(deployment: Deployment):
    text, ranks = deployment.plan.to_json(), len(deployment.plan.workers)
    incarnation = 10**15 + 1
    training = Joined(text, ranks, incarnation)
    code, report = selftest(deployment.plan_file)
    assert code == 1
    assert "a training has the job" in report["findings"][0]["what"]
    training.sum()


class Joined:
    """All ranks of a job, each in a thread."""

    def __init__(self, text: str, ranks: int, incarnation: int) -> None:
        self.ranks = ranks
        self.engines = self._each(lambda rank: _native.Engine(text, rank, incarnation))

    def sum(self) -> None:
        import numpy as np

        arrays = [np.ones(1000, np.float32) for _ in range(self.ranks)]
        self._each(lambda rank: self.engines[rank].all_reduce(arrays[rank], timeout_s=WAIT_S))
        assert all((array == self.ranks).all() for array in arrays)
        for engine in self.engines:
            engine.close()

    def _each(self, act: Callable[[int], Any]) -> list[Any]:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(self.ranks) as pool:
            return list(pool.map(act, range(self.ranks)))


def test_another_secret_another_plan_and_a_dead_node_are_told_apart(deployment: Deployment, tmp_path: Path):
    other = tmp_path / "other.json"

    def change(**job: Any) -> None:
        made = deployment.plan.model_copy(update={"job": deployment.plan.job.model_copy(update=job)})
        made.write(other)

    change(secret="00" * 32)
    code, report = selftest(other, SHORT)
    assert (code, "without an answer" in report["findings"][0]["what"]) == (1, True)
    assert "wiresum keys" in report["findings"][0]["remedy"]
    change(values_per_packet=64)
    code, report = selftest(other)
    assert (code, "another plan" in report["findings"][0]["what"]) == (1, True)
    deployment.daemon("S1").kill()
    code, report = selftest(deployment.plan_file)
    assert (code, report["steps"]) == (1, [])
    assert [(one["node"], "nothing listens" in one["what"]) for one in report["findings"]] == [("S1", True)]


def test_a_plan_whose_switches_sum_is_refused(tmp_path: Path):
    file = str(tmp_path / "plan.json")
    assert wiresum(
        "plan", "goat", "--planner", "goat", "--switched", "auto", "--gradient", "1MB", "-o", file
    ).returncode in {0, 4}
    refused = wiresum("selftest", file)
    assert refused.returncode == 3
    assert "switches of this plan take packets of their neighbours alone" in refused.stderr


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize("engine", engines("xdp", "udp"))
def test_what_is_in_the_way_in_a_network_is_named(name: str, engine: str):
    network = star(2)
    with Testbed(network, plan(network, Job(), PlanOptions(engine=engine)), name=name) as bed:

        def at_worker(options: tuple[str, ...]) -> Report:
            asked = [*SELFTEST, str(bed.plan_file), "--json", *options]
            child = bed.spawn("w0", asked, stdout=subprocess.PIPE)
            said, _ = child.communicate(timeout=WAIT_S)
            return json.loads(said)

        assert at_worker(PATIENT)["findings"] == []
        if engine == "xdp":
            ip(bed, "w0", "link set dev e0 xdp off")
            assert "no XDP program" in at_worker(SHORT)["findings"][0]["what"]
            mend = bed.spawn("w0", [sys.executable, "-m", "wiresum", "testbed", "pass", "e0"])
            assert mend.wait(WAIT_S) == 0
            assert at_worker(PATIENT)["findings"] == []
            return
        ip(bed, "switch", "link set dev p0 mtu 1400")
        assert "the MTU of a bridge or switch between" in at_worker(SHORT)["findings"][0]["what"]
        ip(bed, "w0", "link set dev e0 mtu 1400")
        assert "do not fit the MTU of 1400" in at_worker(SHORT)["findings"][0]["what"]


def ip(bed: Testbed, node: str, command: str) -> None:
    subprocess.run(["ip", "-n", bed.network.namespaces[node], *command.split()], check=True, timeout=WAIT_S)
