"""What tests need of the machine. A skip for any other reason, or for a lack that is none, fails the run.

`@pytest.mark.needs("xdp")` skips a test where XDP cannot be had; the reason is what `wiresum doctor` says. What
`make build` installs is no such need: a test fails without it. `WIRESUM_TESTS_REQUIRE=xdp,bpf` names capabilities that
must be there, whatever doctor says. The Rust tests read the same variable (`crates/testkit/src/capability.rs`).
`make test` sets it to what this module prints as a program: all capabilities that this machine has.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from wiresum.plan.aggregation_plan import Engine

REQUIRE = "WIRESUM_TESTS_REQUIRE"
NEEDS = re.compile(r"needs ([\w-]+): ")

DOCTORS_NAMES = {"namespaces": "network namespaces", "bpf": "BPF", "xdp": "XDP on veth"}
"""Capabilities that `wiresum doctor` looks for, with its names."""


def _doctor(name: str) -> str:
    from wiresum.cli.diagnosis import CHECKS

    return next(check() for title, _, check in CHECKS if title == DOCTORS_NAMES[name])


def _p4_tools(*names: str) -> str:
    from tests.p4 import tools

    return tools.find().missing(*names)


def _why_no_loopback(family: socket.AddressFamily, address: str) -> str:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError as refused:
        return f"{address}: {refused}"
    return ""


def _why_no_cuda() -> str:
    """Does not begin to use a GPU, so that ranks may be forked."""
    import torch

    if not torch.backends.cuda.is_built():
        return f"PyTorch {torch.__version__} is built without CUDA; install a build with it"
    return "" if torch.cuda.device_count() else "PyTorch finds no NVIDIA GPU"


def _why_no_ray() -> str:
    return "" if importlib.util.find_spec("ray") else "`pip install ray`; no part of Wiresum requires it"


def _why_no_slower_cores() -> str:
    from wiresum.bench.line.cores import mounted
    from wiresum.errors import TestbedError

    try:
        with mounted():
            return ""
    except TestbedError as refused:
        return str(refused)


PROBES = {
    **{name: lambda name=name: _doctor(name) for name in DOCTORS_NAMES},
    "root": lambda: "" if os.geteuid() == 0 else "run as root",
    "ipv4": lambda: _why_no_loopback(socket.AF_INET, "127.0.0.1"),
    "ipv6": lambda: _why_no_loopback(socket.AF_INET6, "::1"),
    "cores": lambda: "" if (os.cpu_count() or 1) > 1 else "this machine has one core",
    "p4c": lambda: _p4_tools("P4C"),
    "bmv2": lambda: _p4_tools("BMV2", "BMV2_CLI"),
    "cuda": _why_no_cuda,
    "ray": _why_no_ray,
    "slower-cores": _why_no_slower_cores,
    "curl": lambda: "" if shutil.which("curl") else "install curl",
    "lintian": lambda: "" if shutil.which("lintian") else "install lintian",
}
"""What says why a capability is missing, with the remedy; empty if it is there."""


@cache
def lack(name: str) -> str:
    """Why a capability is missing, found out once; empty if it is there."""
    return PROBES[name]()


@cache
def _now(name: str) -> str:
    """The same at the end of the run: a probe that failed once may have failed by chance."""
    return PROBES[name]()


def require(*names: str) -> None:
    """Skips what runs now, and says why, unless the machine has all of these."""
    for name in names:
        if problem := lack(name):
            pytest.skip(f"needs {name}: {problem}")


def engines(*names: str) -> list[Any]:
    """Parameters of a test, each with what the engine of this name needs."""
    return [pytest.param(name, marks=pytest.mark.needs("xdp")) if "xdp" in name else name for name in names]


def best_engine() -> Engine:
    """The kernel's where it can be had."""
    return "udp" if lack("xdp") else "xdp"


def required() -> set[str]:
    """Capabilities that the environment says are there."""
    return set(filter(None, os.environ.get(REQUIRE, "").split(",")))


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker and the judge of skips."""
    config.addinivalue_line("markers", "needs(*capabilities): skips where one is missing; see tests/capabilities.py")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skips())


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips the test if the machine lacks something that it needs."""
    for mark in item.iter_markers("needs"):
        require(*mark.args)


class Skips:
    """What a run has skipped, and which of that fails it."""

    def __init__(self) -> None:
        self._reasons: list[tuple[str, str]] = []
        self._complaints: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remembers a skipped test."""
        if not hasattr(report, "wasxfail"):
            self._remember(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remembers a skipped file."""
        self._remember(report)

    def _remember(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped:
            assert isinstance(report.longrepr, tuple)
            self._reasons.append((report.nodeid, report.longrepr[2].removeprefix("Skipped: ")))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fails a run that skipped what it could have tested."""
        self._complaints = [f"{test} was skipped{why}" for test, reason in self._reasons if (why := _judge(reason))]
        if self._complaints and session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Says which skips fail the run."""
        for complaint in self._complaints:
            terminalreporter.write_line(f"ERROR {complaint}", red=True)


def _judge(reason: str) -> str:
    """What is wrong with a skip; empty if nothing is."""
    named = NEEDS.match(reason)
    if named is None:
        return f" for no lack that tests/capabilities.py knows: {reason}"
    if named[1] in required():
        return f", but {REQUIRE} says that this machine has {named[1]}: {reason}"
    if not _now(named[1]):
        return f", but this machine has {named[1]} now: {reason}"
    return ""


if __name__ == "__main__":
    print(",".join(name for name in PROBES if not lack(name)))
