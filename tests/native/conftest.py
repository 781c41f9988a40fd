"""Jobs over loopback for the native module: the daemon as a process, ranks as threads."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from wiresum import _native
from wiresum.deploy.deployment import Deployment
from wiresum.deploy.hosts import ThisHost, on_loopback
from wiresum.plan.aggregation_plan import AggregationPlan

Plan = dict[str, Any]


def star_plan(workers: int, lanes: str = "int32-le") -> Plan:
    """One node, which has no address yet, over all workers."""
    legs = [{"child": {"worker": rank}, "parent": 0} for rank in range(workers)]
    stream = {"policy": "pool", "window": 192, "places": [{"node": 0, "slots": 512}], "legs": legs}
    return {
        "format": "wiresum-plan/2",
        "planner": "test",
        "job": {"id": 3, "secret": "00112233445566ff" * 4, "values_per_packet": 256, "lanes": lanes, "codec": "block"},
        "nodes": [{"id": 0, "name": "switch", "address": "127.0.0.1:1", "engine": "udp"}],
        "workers": [{"rank": rank, "name": f"w{rank}", "address": "127.0.0.1"} for rank in range(workers)],
        "streams": [
            {"id": 0, "name": "exponents", "role": "exponents", "share": 0.0, **stream},
            {"id": 1, "name": "values", "role": "values", "share": 1.0, **stream},
        ],
    }


@pytest.fixture
def unanswered_plan() -> Iterator[Plan]:
    """A plan for two workers whose node's port is taken by a socket that says nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        plan = star_plan(2)
        plan["nodes"][0]["address"] = f"127.0.0.1:{silent.getsockname()[1]}"
        yield plan


@pytest.fixture
def start_node(tmp_path: Path) -> Iterator[Callable[[Plan], Plan]]:
    """Starts the plan's node on a free port and returns the plan with its address."""
    running: list[Deployment] = []

    def start(plan: Plan) -> Plan:
        folder = tmp_path / f"node-{len(running)}"
        folder.mkdir()
        deployment = Deployment(ThisHost(folder), on_loopback(AggregationPlan.model_validate(plan)))
        deployment.start()
        running.append(deployment)
        started: Plan = json.loads(deployment.plan.to_json())
        return started

    yield start
    for deployment in running:
        (daemon,) = deployment.daemons.values()
        (counters,) = deployment.stop().values()
        assert daemon.process.returncode == 0
        assert counters["engine"] == "udp"


class Job:
    """Every rank's engine, in this process."""

    def __init__(self, plan: Plan) -> None:
        self.plan = json.dumps(plan)
        self.ranks = range(len(plan["workers"]))
        self._pool = ThreadPoolExecutor(len(self.ranks))
        self.engines = self.on_each_rank(lambda rank: _native.Engine(self.plan, rank, 1))

    def on_each_rank(self, act: Callable[[int], Any]) -> list[Any]:
        """What `act(rank)` returns or raises, by rank, all at once."""
        futures = [self._pool.submit(act, rank) for rank in self.ranks]
        return [future.exception() or future.result() for future in futures]

    def close(self) -> None:
        """Everyone leaves."""
        for engine in self.engines:
            engine.close()
        self._pool.shutdown()


@pytest.fixture
def start_job(start_node: Callable[[Plan], Plan]) -> Iterator[Callable[..., Job]]:
    """Starts a node, and a rank for each worker of a star."""
    jobs: list[Job] = []

    def start(workers: int, lanes: str = "int32-le") -> Job:
        jobs.append(Job(start_node(star_plan(workers, lanes))))
        return jobs[-1]

    yield start
    for job in jobs:
        job.close()
