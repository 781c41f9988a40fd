"""`docs/examples/torchft_ddp.py`: replicas under torchft's manager that die and come back, summed in the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aggregator import aggregator
from torchft.coordination import LighthouseServer

from wiresum.deploy.deployment import Deployment
from wiresum.plan.job import Job

SCRIPT = Path(__file__).parents[2] / "docs/examples/torchft_ddp.py"
REPLICAS = 3
LIMIT_S = 120.0
"""Seconds for replicas to get to where they shall; importing PyTorch takes a good part of it on a busy machine."""
LINE = re.compile(r"step (\d+) of (\d+) replicas, parameters add up to (\S+)")


class Replica:
    """A process of the training on one seat, and another one after it has died."""

    def __init__(self, seat: int, directory: Path, environment: dict[str, str]) -> None:
        self.output = directory / f"{seat}.out"
        self._environment = {**os.environ, **environment, "WIRESUM_SEAT": str(seat)}
        self._errors = directory / f"{seat}.err"
        self.start()

    def start(self) -> None:
        with self.output.open("a") as output, self._errors.open("a") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(SCRIPT)], env=self._environment, stdout=output, stderr=errors
            )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def steps(self) -> list[tuple[int, int, str]]:
        """Number, replicas and parameters after each step that it has tried."""
        found = LINE.findall(self.output.read_text())
        return [(int(step), int(replicas), total) for step, replicas, total in found]

    def errors(self) -> str:
        return self._errors.read_text()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Deployment]:
    with aggregator(tmp_path, REPLICAS, Job(values_per_packet=352)) as running:
        yield running


@pytest.fixture
def replicas(node: Deployment, tmp_path: Path) -> Iterator[list[Replica]]:
    lighthouse = LighthouseServer(bind="[::]:0", min_replicas=1, join_timeout_ms=1000, heartbeat_timeout_ms=1000)
    port = lighthouse.address().rsplit(":", 1)[1]
    environment = {
        "HOST": "127.0.0.1", "OMP_NUM_THREADS": "1", "RUST_LOG": "off", "STEPS": "1000000",
        "TORCHFT_LIGHTHOUSE": f"http://127.0.0.1:{port}",
        "WIRESUM_DEAD_AFTER": "1", "WIRESUM_PLAN": str(node.plan_file),
    }  # fmt: skip
    started = [Replica(seat, tmp_path, environment) for seat in range(REPLICAS)]
    try:
        yield started
    finally:
        for replica in started:
            replica.kill()
        lighthouse.shutdown()


def wait_for(what: str, condition: Callable[[], bool], replicas: list[Replica]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not condition():
        dead = [replica for replica in replicas if replica.process.poll() is not None]
        errors = "\n".join(replica.errors()[-3000:] for replica in dead)
        assert time.monotonic() < end_s, f"{what}: {[replica.steps()[-1:] for replica in replicas]}\n{errors}"
        time.sleep(0.05)


def test_a_replica_dies_and_comes_back(replicas: list[Replica]) -> None:
    def all_step_by(count: int, among: list[Replica]) -> Callable[[], bool]:
        first = [len(replica.steps()) for replica in among]

        def have_stepped() -> bool:
            later = [replica.steps()[begin:] for replica, begin in zip(among, first, strict=True)]
            return all(sum(replicas == count for _, replicas, _ in steps) >= 5 for steps in later)

        return have_stepped

    wait_for("all begin", all_step_by(3, replicas), replicas)
    left = [replicas[0], replicas[2]]
    replicas[1].kill()
    wait_for("the others go on", all_step_by(2, left), replicas)
    replicas[1].start()
    wait_for("it is back", all_step_by(3, replicas), replicas)
    for replica in replicas:
        replica.kill()
    after = [{step: total for step, _, total in replica.steps()} for replica in replicas]
    common = set.intersection(*(set(steps) for steps in after))
    assert len(common) >= 10
    assert all(len({steps[step] for steps in after}) == 1 for step in common), "equal bits on all replicas"
    numbers = [step for step, _, _ in left[0].steps()]
    assert numbers == sorted(numbers), "no step is lost"
    repeated = len(numbers) - len(set(numbers))
    assert repeated <= 3, f"{repeated} steps were tried again, of three changes of the quorum"
    assert "WorkerLostError" not in left[0].errors()
    assert "uses Gloo" not in "".join(replica.errors() for replica in replicas)
