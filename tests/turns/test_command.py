"""`wiresum testbed run --jobs`: jobs in four racks by every scheduler and protocol that is named, in one command."""

import json
import sys
from itertools import product

import pytest
from tests.turns.networks import DARK_S, RATE_BPS, SLOT_S, star, workload
from typer.testing import CliRunner

from wiresum.cli.main import app
from wiresum.topology.generators.optical import optical
from wiresum.turns.live import RANK

SCHEDULERS = ("turns", "window", "fcfs")
DRIVERS = ("polatis-rest", "calient-tl1", "sonic-tcp", "sonic-gnmi")
BYTES_TOLERANCE, MOST_BESIDE = 0.02, 2000
"""Hellos, and what a busy machine sends twice."""


@pytest.fixture
def files(tmp_path):
    """Four racks whose switches have one port each, so that the last job needs those of two others after them."""
    topology = optical(4, 2, 1, ports=1, rate_bps=RATE_BPS, places=1, dark_s=DARK_S)
    jobs = workload(
        star("local", {"u0": 2}, "u0", 300_000),
        star("near", {"u0": 1, "u1": 1}, "u1", 300_000),
        star("far", {"u2": 1, "u3": 1}, "u3", 300_000, iterations=2),
        star("late", {"u1": 1, "u2": 1}, "u2", 300_000, arrival_s=0.3),
    )
    (tmp_path / "optical.json").write_text(topology.model_dump_json(exclude_none=True))
    (tmp_path / "jobs.json").write_text(jobs.model_dump_json(exclude_none=True))
    return tmp_path


def run(files, name, *more, command=RANK):
    line = ["testbed", "run", files / "optical.json", "--jobs", files / "jobs.json", "--slot", f"{SLOT_S}s"]
    line += ["--name", name, "--plot", files / "turns.png", "--json", *more, "--", *command]
    return CliRunner().invoke(app, list(map(str, line)))


def test_jobs_in_four_racks_keep_every_schedule_by_every_protocol(namespaces, name, files):
    done = run(files, name, "--scheduler", ",".join(SCHEDULERS), "--driver", ",".join(DRIVERS))
    assert done.exit_code == 0, done.output
    runs = json.loads(done.stdout)
    assert [(one["driver"], one["scheduler"]) for one in runs] == list(product(DRIVERS, SCHEDULERS))
    for one in runs:
        assert one["setups"]["seen"] == one["setups"]["promised"] > 1
        assert {job["end"] for job in one["jobs"]} == {"done"}
        assert all(job["begin_s"]["seen"] >= job["begin_s"]["promised"] for job in one["jobs"])
        for fibre in one["fibres"].values():
            for promised, seen in zip(fibre["promised"], fibre["seen"], strict=True):
                assert promised <= seen <= promised * (1 + BYTES_TOLERANCE) + MOST_BESIDE
    assert (files / "turns.png").stat().st_size > 0
    assert "turns, sonic-tcp" in done.stderr


def test_trees_and_schedules_without_slots_are_run_by_the_same_command(namespaces, name, files):
    done = run(files, name, "--scheduler", "turns,events", "--trees")
    assert done.exit_code == 0, done.output
    runs = json.loads(done.stdout)
    assert [one["scheduler"] for one in runs] == ["turns", "events"]
    assert all(one["setups"]["seen"] == one["setups"]["promised"] for one in runs)
    assert {job["end"] for one in runs for job in one["jobs"]} == {"done"}
    assert all("switch" in {job["by"] for job in one["jobs"]} for one in runs)


@pytest.mark.parametrize(
    "scheduler", [pytest.param(one, marks=() if one == "turns" else pytest.mark.soak) for one in SCHEDULERS]
)
def test_unmodified_trainings_keep_a_schedule(namespaces, name, files, scheduler):
    training = (sys.executable, "-m", "wiresum.demo.job")
    done = run(files, name, "--scheduler", scheduler, "--driver", "sonic-tcp", command=training)
    assert done.exit_code == 0, done.output
    (one,) = json.loads(done.stdout)
    assert one["setups"]["seen"] == one["setups"]["promised"] > 1
    assert {job["end"] for job in one["jobs"]} == {"done"}
    assert "step 2 of 2" in done.stderr


def test_a_protocol_that_nobody_speaks_is_named_before_anything_is_made(name, files):
    done = run(files, name, "--driver", "polatis-rest,openflow")
    assert done.exit_code == 2
    assert "there is no protocol openflow" in " ".join(done.stderr.split())
