"""`wiresum node` against a running daemon."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wiresum.cli.main import app
from wiresum.cli.node import quota, table
from wiresum.deploy import control
from wiresum.deploy import tables as of_tables
from wiresum.deploy.deployment import Deployment
from wiresum.deploy.hosts import LOOPBACK, ThisHost, free_ports, on_loopback
from wiresum.errors import ControlError
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.tables import Table
from wiresum.planners import plan
from wiresum.sparse.job import sparse_job
from wiresum.topology.generators.star import star


@pytest.fixture
def daemon(tmp_path: Path):
    empty = on_loopback(plan(star(2), Job(), PlanOptions(engine="udp")))
    deployment = Deployment(ThisHost(tmp_path), empty, ["--memory", "16MB"])
    deployment.start(idle=True)
    running = deployment.daemon("switch")
    yield running.socket
    deployment.stop()
    assert running.process.returncode == 0
    assert not running.socket.exists(), "the socket's file goes with the daemon"


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "another.json"
    made = plan(star(2), Job(id=7), PlanOptions(engine="udp"))
    made.write(path)
    return path


def run(*arguments: str):
    return CliRunner().invoke(app, ["node", *arguments])


def test_a_job_comes_is_watched_and_goes(daemon: Path, plan_file: Path):
    assert run("add", str(plan_file), "--rate", "2gbit", "--socket", str(daemon)).exit_code == 0
    assert run("list", "--socket", str(daemon)).stdout == "7\n"
    seen = json.loads(run("status", "--json", "--socket", str(daemon)).stdout)
    assert seen["jobs"][0]["quota"]["bytes_per_second"] == 250_000_000
    assert "2000.0" in run("status", "--interval", "0.1", "--socket", str(daemon)).stdout
    assert 'wiresum_members{node="0",job="7"} 0' in run("metrics", "--socket", str(daemon)).stdout
    assert run("remove", "7", "--socket", str(daemon)).exit_code == 0
    assert run("list", "--socket", str(daemon)).stdout == ""


def test_a_refusal_says_why(daemon: Path, plan_file: Path):
    refused = run("add", str(plan_file), "--memory", "1kb", "--socket", str(daemon))
    assert isinstance(refused.exception, ControlError)
    assert "job 7: it needs" in str(refused.exception)
    assert "its quota is 1000" in str(refused.exception)


def test_a_sparse_job_has_a_place_at_daemons_of_tables(daemon: Path, tmp_path: Path):
    tables = [Table(name="users", rows=100, dimension=4, features=["user"])]
    address = f"{LOOPBACK}:{free_ports(1, socket.SOCK_DGRAM)[0]}"
    first, second, large = (tmp_path / f"{number}.json" for number in (3, 4, 5))
    for path, rows in ((first, 100), (second, 100), (large, 10**6)):
        job = sparse_job([tables[0].model_copy(update={"rows": rows})], 2, [address], job=int(path.stem))
        path.write_text(job, encoding="utf-8")
    refused = run("add", str(second), "--socket", str(daemon))
    assert "this daemon serves plans" in str(refused.exception)
    control_socket = str(tmp_path / "tables.sock")

    def command(job: Path, number: int) -> list[str]:
        return [*of_tables.daemon(job, number), "--control", control_socket]

    with of_tables.TableDaemons(ThisHost(tmp_path), first.read_text(encoding="utf-8"), ["n0"], command):
        where = ("--socket", control_socket)
        assert run("add", str(second), "--memory", "4kB", *where).exit_code == 0
        assert run("list", *where).stdout == "3\n4\n"
        refused = run("add", str(large), "--memory", "1MB", *where)
        assert "job 5: it needs 16" in str(refused.exception)
        assert run("remove", "3", *where).exit_code == 0
        assert [job["job"] for job in json.loads(run("tables", "--json", *where).stdout)["jobs"]] == [4]


def test_a_missing_daemon_is_named(tmp_path: Path):
    with pytest.raises(ControlError, match="start the daemon with --control"):
        control.ask(tmp_path / "nobody.sock", "status")


def test_quotas_are_bytes():
    assert quota("64MB", "8mbit") == {"memory_bytes": 64_000_000, "bytes_per_second": 1_000_000}
    assert quota(None, None) == {}


def test_rates_are_differences():
    verdicts = dict.fromkeys(
        ["completed", "forwarded", "over_quota", "malformed", "foreign", "bad_contributor", "damaged", "mismatch"], 0
    )
    job = {"job": 7, "members": 2, "expected_members": 4, "memory_bytes": 10, "verdicts": verdicts}
    before, after = (
        {"node": 0, "engine": "xdp", "listen": "a", "uptime_s": at,
         "jobs": [{**job, "bytes": count, "quota": {"bytes_per_second": None}}]}
        for at, count in ((1.0, 500_000), (3.0, 2_500_000))
    )  # fmt: skip
    rows = table(before, after)
    assert [next(iter(column.cells)) for column in rows.columns][:5] == ["7", "2 of 4", "0.0 MB", "8.0 Mbit/s", "none"]


def test_tables_of_sparse_jobs_are_shown(monkeypatch: pytest.MonkeyPatch):
    tables = {
        "rows": 7, "rounds": 12, "map_version": 4, "hot_gradients": 30, "cold_gradients": 10, "rows_lent": 3,
        "rows_returning": 2, "restorable": 9, "snapshot_age_ms": 1500,
    }  # fmt: skip
    jobs = [{"job": 5, "memory_bytes": 2_000_000, "tables": tables}, {"job": 6, "memory_bytes": 1, "tables": {}}]
    monkeypatch.setattr(control, "ask", lambda *_, **__: {"jobs": jobs})
    seen = json.loads(run("tables", "--json").stdout)["jobs"]
    assert [job["job"] for job in seen] == [5], "jobs without tables are left out"
    assert (seen[0]["coverage"], seen[0]["snapshot_age_s"], seen[0]["map_version"]) == (0.75, 1.5, 4)
    shown = run("tables").stdout
    assert all(text in shown for text in ("75.0%", "version 4", "round 9", "1.5 s", "2.0 MB"))
    del tables["snapshot_age_ms"]
    tables["hot_gradients"] = tables["cold_gradients"] = 0
    assert "none" in run("tables").stdout
