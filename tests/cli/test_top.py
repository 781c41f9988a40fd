"""`wiresum top`: what a daemon does, as one table, as JSON, and as rates of two statuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wiresum.cli.main import app
from wiresum.deploy.deployment import Deployment
from wiresum.deploy.hosts import ThisHost, on_loopback
from wiresum.deploy.load import loads
from wiresum.errors import ControlError
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.topology.generators.star import star


@pytest.fixture
def socket(tmp_path: Path) -> Iterator[Path]:
    made = on_loopback(plan(star(2), Job(id=7), PlanOptions(engine="udp")))
    with Deployment(ThisHost(tmp_path), made) as running:
        yield running.daemon("switch").socket


def top(*arguments: str):
    return CliRunner().invoke(app, ["top", "--interval", "0.1", *arguments])


def test_without_a_terminal_there_is_one_table(socket: Path):
    shown = top(str(socket))
    assert shown.exit_code == 0, shown.output
    assert "0 of 4" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert top(str(socket), "--once").stdout == shown.stdout
    (job,) = json.loads(top(str(socket), "--json").stdout)["jobs"]
    assert (job["job"], job["members"], job["rate_bps"], job["summed_share"]) == (7, 0, 0.0, None)


def test_a_daemon_that_is_named_has_to_be_there(tmp_path: Path):
    refused = top(str(tmp_path / "nobody.sock"))
    assert isinstance(refused.exception, ControlError)
    assert "nobody answers at" in str(refused.exception)


def status(uptime_s: float, count: int, **verdicts: int) -> dict[str, Any]:
    job = {
        "job": 7, "members": 2, "expected_members": 2, "memory_bytes": 10, "bytes": count, "verdicts": verdicts,
        "quota": {"bytes_per_second": None},
    }  # fmt: skip
    return {"node": 0, "engine": "xdp", "uptime_s": uptime_s, "jobs": [job]}


def test_shares_are_of_what_came_since_the_look_before():
    before = status(1.0, 0, first=10, completed=10, probed=4)
    after = status(3.0, 1000, first=40, completed=40, probed=6, duplicate=15, damaged=5)
    (load,) = loads(before, after)
    assert (load.rate_bps, load.sums_per_s, load.asked_per_s) == (4000.0, 15.0, 1.0)
    assert (load.summed_share, load.again_share) == (0.75, 0.1875)
    assert (load.dropped, load.sums) == (5, 40)


def test_a_job_that_just_came_and_a_daemon_that_was_replaced_have_no_negative_rates():
    fresh = status(5.0, 200, first=10, completed=10)
    (load,) = loads({**fresh, "uptime_s": 4.0, "jobs": []}, fresh)
    assert (load.rate_bps, load.sums_per_s) == (1600.0, 10.0)
    (load,) = loads(status(9.0, 900, completed=90), {**fresh, "uptime_s": 10.0})
    assert (load.rate_bps, load.sums_per_s, load.summed_share) == (0, 0, None)
