"""Long commands: what they say while they work, and what Ctrl-C leaves."""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wiresum.bench.command import Output, measuring
from wiresum.bench.result import Result
from wiresum.cli.main import app
from wiresum.commandline import durations
from wiresum.commandline.progress import MARGIN, Working, in_lines, spoken, working
from wiresum.reproduce.row import Benchmark
from wiresum.reproduce.xagg import PAPER as XAGG

WAIT_S = 60
INTERRUPTED = 128 + signal.SIGINT


class Clock:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_is_counted_says_how_long_the_rest_takes():
    clock = Clock()
    task = Working("runs", clock=clock)
    assert task.shown() == "runs · 0 s"
    clock.now_s = 10.0
    task.say("seed 1")
    task.reach(2, 6)
    assert task.shown() == f"runs: seed 1, 2 of 6 · 10 s, about {spoken(20 * MARGIN)} left"
    clock.now_s = 10.0 + 20 * MARGIN
    assert task.shown().endswith("longer than expected")


def test_nothing_done_is_no_estimate():
    clock = Clock()
    task = Working("runs", clock=clock)
    clock.now_s = 5.0
    task.reach(0, 6)
    assert task.shown() == "runs: 0 of 6 · 5 s"


def test_without_a_terminal_lines_come_until_the_end(capsys: pytest.CaptureFixture[str]):
    said: list[str] = []

    class Told(Working):
        def shown(self) -> str:
            said.append(super().shown())
            return said[-1]

    with in_lines(Told("sums", 60.0), first_s=0.0, apart_s=0.001):
        while len(said) < 3:
            pass
    count = len(said)
    assert all(line.startswith("sums · ") and line.endswith("left") for line in said)
    assert len(said) == count, "the teller has ended with the block"
    assert "sums" in capsys.readouterr().err


def test_a_command_remembers_how_long_it_took(monkeypatch: pytest.MonkeyPatch, cache: Path):
    monkeypatch.setattr(sys, "argv", ["wiresum", "connect", "--driver", "sonic://admin:hidden@h"])
    assert durations.last_s() is None
    durations.keep(12.34)
    assert durations.last_s() == 12.3
    assert "hidden" not in (cache / "wiresum/durations.json").read_text()
    with working("sums") as task:
        assert "left" in task.shown()
    monkeypatch.setattr(sys, "argv", ["wiresum", "other"])
    assert durations.last_s() is None


def test_no_more_commands_are_remembered_than_the_bound(monkeypatch: pytest.MonkeyPatch, cache: Path):
    monkeypatch.setattr(durations, "MAX_KEPT", 3)
    for number in range(5):
        monkeypatch.setattr(sys, "argv", ["wiresum", str(number)])
        durations.keep(1.0 + number)
    assert list(json.loads((cache / "wiresum/durations.json").read_text()).values()) == [3.0, 4.0, 5.0]


@pytest.mark.parametrize("content", ["[]", "{", '{"a": "b"}', "\udcff"])
def test_a_memory_that_something_else_has_written_is_none(content: str, cache: Path):
    (cache / "wiresum").mkdir(parents=True)
    (cache / "wiresum/durations.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    assert durations.last_s() is None
    durations.keep(3.0)
    assert durations.last_s() == 3.0


def test_where_nothing_can_be_written_nothing_is_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    durations.keep(3.0)
    assert durations.last_s() is None


def test_an_interrupted_benchmark_shows_the_cases_that_are_complete(capsys: pytest.CaptureFixture[str]):
    def run():
        with measuring("two methods", Output(as_json=True)):
            Result("ring", "s", [2.0, 1.0, 3.0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    told = json.loads(capsys.readouterr().out)
    assert [(one["name"], one["median"]) for one in told["results"]] == [("ring", 2.0)]
    assert told["notes"][0].startswith("interrupted")


def test_a_benchmark_that_is_interrupted_at_once_shows_nothing(capsys: pytest.CaptureFixture[str]):
    Result("of another benchmark", "s", [1.0])
    with pytest.raises(KeyboardInterrupt), measuring("two methods", Output(as_json=True)):
        raise KeyboardInterrupt
    assert capsys.readouterr().out == ""


def test_an_interrupted_paper_shows_the_rows_that_are_complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def interrupted(_quick, _progress):
        raise KeyboardInterrupt

    broken = dataclasses.replace(XAGG, benchmarks=dict.fromkeys(XAGG.benchmarks, Benchmark("b", 1, 1, interrupted)))
    monkeypatch.setattr("wiresum.cli.reproduction.PAPERS", {"xagg": broken})
    told = CliRunner().invoke(app, ["reproduce", "xagg", "--rows", "X2,X3", "--json", "--figures", str(tmp_path)])
    assert told.exit_code == INTERRUPTED
    assert [row["id"] for row in json.loads(told.stdout)["rows"]] == ["X2"]
    assert "1 of 2 rows were complete" in told.stderr
