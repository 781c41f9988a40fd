"""`wiresum demo` and `wiresum bench allreduce` as a user runs them, but short."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wiresum.cli.main import app
from wiresum.errors import TestbedError

WIRESUM = [str(Path(sys.executable).with_name("wiresum"))]
TIMEOUT_S = 240


def run(*arguments):
    return subprocess.run([*WIRESUM, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def demo(folder, *arguments):
    done = run("demo", "--workers", "2", "--max-steps", "3", "--output", str(folder), "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_demo_without_privileges_trains_and_says_what_it_leaves_out(tmp_path):
    content = demo(tmp_path, "--loopback")
    wiresum, gloo = content["trainings"]
    assert (wiresum["backend"], gloo["backend"]) == ("wiresum", "gloo")
    assert wiresum["losses"] == pytest.approx(gloo["losses"], rel=1e-3)
    assert "loopback, unshaped" in content["how"]
    assert content["limit_seconds"] is None
    assert "summed in the network" in wiresum["report"]
    assert json.loads((tmp_path / "wiresum-demo.json").read_text()) == content
    assert (tmp_path / "wiresum-demo.png").stat().st_size > 0


@pytest.mark.needs("xdp")
def test_the_demo_counts_the_bytes_of_shaped_links(tmp_path):
    content = demo(tmp_path, "--rate", "400mbit")
    wiresum, gloo = content["trainings"]
    gradient_bytes = 4 * wiresum["parameters"]
    # Three steps and five timed all-reduces, up and down at once; the ring of two sends as much each way.
    assert wiresum["busiest_link_bytes"] > 8 * gradient_bytes
    assert gloo["busiest_link_bytes"] > 8 * gradient_bytes
    assert 0 < wiresum["share_of_wire_limit"] <= 1.05


@pytest.mark.needs("xdp")
def test_the_benchmark_sets_the_rival_beside_the_limit():
    done = run("bench", "allreduce", "--workers", "2", "--rate", "400mbit", "--size", "1MB", "--runs", "2", "--json")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert [r["name"] for r in content["results"]] == ["wiresum", "gloo"]
    # float32 sums of two values in ±1 differ from Gloo's by rounding alone.
    assert all(r["largest_deviation_from_gloo"] < 1e-6 for r in content["results"])
    assert content["limit"]["value"] > 1e6 * 8 / 400e6
    assert {r["name"] for r in content["ratios"]} == {"wiresum / wire limit", "gloo / wiresum"}


@pytest.mark.parametrize(
    ("given", "trained"),
    [
        ([], (4, None)),
        (["--quick"], (4, 20)),
        (["--quick", "-n", "3"], (3, 20)),
        (["--quick", "--max-steps", "5"], (4, 5)),
    ],
)
def test_a_quick_demo_has_less_to_do(given, trained, monkeypatch):
    def remember(options, _progress):
        assert (options.workers, options.max_steps) == trained
        raise TestbedError("seen")

    monkeypatch.setattr("wiresum.demo.run.compare", remember)
    told = CliRunner().invoke(app, ["demo", "--loopback", *given])
    assert str(told.exception) == "seen"
