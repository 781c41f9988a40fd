"""The command line where letters are few, the terminal is narrow, or there is none."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from wiresum.cli import diagnosis
from wiresum.cli.version import installed
from wiresum.native import why_missing

WAIT_S = 60
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}


def wiresum(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LANG", "LC_ALL"}}
    command = [sys.executable, "-m", "wiresum", *arguments]
    return subprocess.run(
        command, env={**kept, **environment}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=WAIT_S, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    assert wiresum("plan", "star", "--planner", "direct", "-o", str(path)).returncode == 0
    return str(path)


def test_a_locale_without_arrows_gets_question_marks(plan_file: str):
    told = wiresum("predict", plan_file, "-t", "star", **ASCII)
    assert (told.returncode, "Traceback" in told.stderr) == (0, False)
    assert "w0 ? switch" in told.stdout
    assert told.stdout.isascii()


def test_a_file_that_cannot_be_written_in_is_named_with_the_reason():
    refused = wiresum("plan", "star", "--planner", "direct", "-o", "/proc/plan.json", **ASCII)
    assert refused.returncode == 2
    assert "/proc/plan.json" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_without_a_terminal_each_row_is_one_line(plan_file: str):
    told = wiresum("predict", plan_file, "-t", "star")
    assert "\x1b" not in told.stdout
    assert all("%" in line for line in told.stdout.splitlines() if "switch" in line and "│" in line)


def test_sixty_columns_cut_nothing_off(plan_file: str):
    told = wiresum("doctor", COLUMNS="60")
    assert max(map(len, told.stdout.splitlines())) <= 60
    assert "…" not in told.stdout
    assert told.stdout.splitlines()[-1].startswith("ready") == (told.returncode == 0)


def test_no_home_to_write_in_is_no_obstacle(tmp_path: Path):
    path = tmp_path / "plan.json"
    told = wiresum("plan", "star", "--planner", "direct", "-o", str(path), HOME="/proc/none", XDG_CACHE_HOME="")
    assert told.returncode == 0, told.stderr
    assert path.exists()
    assert "Traceback" not in told.stderr


COMMONEST = ["--help", "doctor", "version", "demo --help", "plan --help", "topology star", "plan star", "schema plan"]


@pytest.mark.parametrize("command", COMMONEST)
def test_letters_of_ascii_suffice(command: str):
    told = wiresum(*command.split(), **ASCII)
    assert "Traceback" not in told.stderr
    assert told.stdout.isascii()
    assert told.stdout


@pytest.mark.parametrize("command", [command for command in COMMONEST if command.endswith("--help")])
def test_help_fits_into_sixty_columns(command: str):
    told = wiresum(*command.split(), COLUMNS="60")
    assert max(map(len, told.stdout.splitlines())) <= 60


@pytest.mark.parametrize("command", COMMONEST)
def test_output_may_be_closed_as_services_close_it(command: str):
    line = f'exec "{sys.executable}" -m wiresum {command} >&-'
    told = subprocess.run(["sh", "-c", line], stderr=subprocess.PIPE, text=True, timeout=WAIT_S, check=False)
    assert (told.returncode in {0, 3}, "Traceback" in told.stderr) == (True, False), told.stderr


def test_completion_that_cannot_be_installed_can_be_printed():
    line = f'"{sys.executable}" -m wiresum --install-completion; exit $?'  # a shell is known by being the parent
    refused = subprocess.run(
        ["bash", "-c", line], env=os.environ | {"HOME": "/proc/none"}, capture_output=True, text=True,
        timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert refused.returncode == 3
    assert "/proc/none" in refused.stderr
    assert "wiresum --show-completion" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.needs("namespaces", "xdp")
def test_the_kernel_sums_where_the_types_of_the_kernel_are_hidden(tmp_path: Path):
    """As in a container without /sys/kernel/btf."""
    hidden = f'mount --bind "{tmp_path}" /sys/kernel/btf && exec "{sys.executable}" -m wiresum "$@"'
    line = "testbed run star --workers 2 --rate 200mbit --engine xdp -- true"
    command = ["unshare", "--mount", "sh", "-c", hidden, "sh", *line.split()]
    told = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert told.returncode == 0, told.stderr


def test_a_daemon_of_another_release_is_named_with_both_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    other = tmp_path / "wiresum-node"
    other.write_text("#!/bin/sh\necho wiresum-node 0.0.9\n")
    other.chmod(0o755)
    monkeypatch.setattr(diagnosis, "find_binary", lambda: str(other))
    assert f"{other} is of version 0.0.9, and wiresum of {installed('wiresum')}" in daemon_problem()
    other.write_text("#!/bin/sh\nexit 127\n")
    assert f"{other} does not run here" in daemon_problem()


def daemon_problem() -> str:
    return next(check() for name, _, check in diagnosis.CHECKS if name == "wiresum-node")


def test_another_c_library_is_named_as_the_reason(monkeypatch: pytest.MonkeyPatch):
    missing = ImportError("libc.so.6: no such file")
    assert "run `make build` in a clone" in why_missing(missing)
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert "musl" in why_missing(missing)
