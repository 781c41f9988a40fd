"""Daemons with too little memory for a plan, and documents in which a key is given twice."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.hostile import limits

from wiresum.deploy.control import ask
from wiresum.deploy.daemon import find_binary
from wiresum.deploy.hosts import on_loopback
from wiresum.errors import ControlError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.topology.generators.star import star

LIMIT_S = 60.0
"""Limit of a daemon's start on a busy machine."""
GROUP_BYTES = 100 << 20
HALF_SLOTS = 8192
"""Slots that take half of such a group: 49 MB."""


def _plan(file: Path, job: int = 1, **options: int) -> AggregationPlan:
    """A star of two workers, also in a file."""
    star_plan = on_loopback(plan(star(workers=2), Job(id=job, **options), PlanOptions(engine="udp")))
    star_plan.write(file)
    return star_plan


@contextmanager
def _daemon(folder: Path, **options: object) -> Iterator[Path]:
    """The control socket of a daemon that serves job 1."""
    file, control = folder / "plan.json", folder / "node.sock"
    _plan(file)
    command = [find_binary(), "--node", "0", "--plan", file, "--control", control]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **options) as daemon:
        try:
            assert daemon.stdout.readline().startswith("ready")
            yield control
        finally:
            daemon.terminate()


def _say(control: Path, line: str) -> dict[str, object]:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(control))
        client.sendall(line.encode() + b"\n")
        return json.loads(client.makefile().readline())


@pytest.mark.parametrize("engine", ["udp", "tcp"])
def test_refuses_slots_beyond_its_address_space(tmp_path: Path, engine: str) -> None:
    file = tmp_path / "large.json"
    _plan(file, slots=1 << 18)
    file.write_text(file.read_text().replace('"udp"', f'"{engine}"'))
    done = limits.run([find_binary(), "--node", "0", "--plan", str(file), "--memory", "4GiB"], LIMIT_S)
    assert done.returncode == 1, done
    assert done.stderr.splitlines()[-1].startswith("wiresum-node: 1560662016 bytes of memory are needed here"), done
    assert "stack" not in done.stderr


def test_refuses_requests_and_plans_with_a_key_given_twice(tmp_path: Path) -> None:
    with _daemon(tmp_path) as control:
        for line in (
            '{"version": 1, "request": "status", "request": "remove", "job": 1}',
            '{"version": 1, "request": "remove", "job": 2, "job": 1}',
            '{"version": 1, "request": "quota", "job": 1, "quota": {"memory_bytes": 9, "memory_bytes": 1}}',
        ):
            answer = _say(control, line)
            assert not answer["ok"]
            assert "is given twice" in str(answer["error"])
        assert [job["job"] for job in ask(control, "status")["jobs"]] == [1]
    twice = tmp_path / "twice.json"
    twice.write_text((tmp_path / "plan.json").read_text().replace('"format"', '"name": "a", "format"', 1))
    twice.write_text(twice.read_text().replace('"name": "a"', '"job": {}, "name": "a"', 1))
    done = limits.run([find_binary(), "--node", "0", "--plan", str(twice)], LIMIT_S)
    assert done.returncode == 2, done
    assert "`job` is given twice" in done.stderr


@contextmanager
def _small_group() -> Iterator[Path]:
    """A control group whose processes may use `GROUP_BYTES` together."""
    first = Path("/sys/fs/cgroup/memory")
    top, limit = (first, "memory.limit_in_bytes") if first.is_dir() else (first.parent, "memory.max")
    folder = top / f"wiresum-test-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / limit).write_text(str(GROUP_BYTES))
        yield folder
    finally:
        folder.rmdir()


@pytest.mark.needs("memory-groups")
def test_admits_what_its_control_group_has_left(tmp_path: Path) -> None:
    """What one job was promised, which has touched none of it, is not promised again."""
    with _small_group() as group:
        files = [tmp_path / f"job-{job}.json" for job in (2, 3, 4)]
        sizes = (1 << 18, HALF_SLOTS, HALF_SLOTS)
        with _daemon(tmp_path, preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid()))) as control:
            address = AggregationPlan.read(tmp_path / "plan.json").nodes[0].address
            too_large, fits, fits_no_more = (
                _at(address, _plan(file, job, slots=slots))
                for job, file, slots in zip((2, 3, 4), files, sizes, strict=True)
            )
            with pytest.raises(ControlError, match="1560662016 bytes of memory here"):
                ask(control, "add", plan=too_large)
            ask(control, "add", plan=fits)
            with pytest.raises(ControlError, match="bytes of memory here, and"):
                ask(control, "add", plan=fits_no_more)
            assert [job["job"] for job in ask(control, "status")["jobs"]] == [1, 3]


def _at(address: str, star_plan: AggregationPlan) -> dict[str, object]:
    """The plan as a daemon gets it that is at an address."""
    nodes = [star_plan.nodes[0].model_copy(update={"address": address})]
    document: dict[str, object] = json.loads(star_plan.model_copy(update={"nodes": nodes}).held_by(0).to_json())
    return document
