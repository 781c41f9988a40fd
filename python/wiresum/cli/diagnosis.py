"""What `wiresum doctor` tries; apart from its options, as the testbed takes long to import."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from rich.table import Table

from wiresum import native
from wiresum.cli import doctor_service, doctor_transport
from wiresum.cli.version import installed
from wiresum.commandline.console import out, print_json
from wiresum.deploy.daemon import daemon_version, find_binary
from wiresum.errors import SettingError, SupportError
from wiresum.testbed import support
from wiresum.testbed.networks import why_no_namespaces
from wiresum.testbed.xdp_pass import loaded

TORCH_MINIMUM = (2, 14)
COMPILER_NAMES = "c++", "g++", "clang++"
CLANG_NAMES = ("clang-19", "clang")
BPF_SOURCES = Path(__file__).parents[3] / "bpf"
"""Sources of the XDP programs. Only a clone has them: a wheel brings the programs built, and needs no clang."""


@dataclass(frozen=True)
class Finding:
    """One thing that was tried.

    Attributes:
        name: what.
        needed_for: what does not work without it.
        problem: what is wrong and what to do; empty if nothing is.
        optional: a machine that is no server of its own does without.
    """

    name: str
    needed_for: str
    problem: str
    optional: bool = False

    @property
    def fine(self) -> bool:
        """Whether it works."""
        return not self.problem


def run(as_json: bool) -> bool:
    """Tries everything and shows what was found; whether all is there that a server is not alone to need."""
    findings = [Finding(name, needed_for, check()) for name, needed_for, check in CHECKS]
    findings += [Finding(name, needed_for, check(), optional=True) for name, needed_for, check in SERVICE_CHECKS]
    if as_json:
        print_json({"findings": [{**asdict(finding), "fine": finding.fine} for finding in findings]})
    else:
        out().print(_table(findings))
        out().print(_verdict(findings))
    return all(finding.fine or finding.optional for finding in findings)


def _table(findings: list[Finding]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("", "what", "needed for", "what to do"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        table.add_row("ok" if finding.fine else "--", finding.name, finding.needed_for, finding.problem)
    return table


def _verdict(findings: list[Finding]) -> str:
    """The last line: whether this machine is ready, and for what it is not."""
    missing = [finding.name for finding in findings if not finding.fine and not finding.optional]
    if missing:
        return f"not ready; to mend: {', '.join(missing)}"
    spare = sum(not finding.fine for finding in findings)
    return f"ready; only aggregators as services lack something ({spare})" if spare else "ready"


def _why_no_bpf() -> str:
    with _as_text() as problem, loaded():
        pass
    return problem.text


def _why_no_clang() -> str:
    return "" if any(map(shutil.which, CLANG_NAMES)) else "install clang (19 or later) and build again"


def _why_no_daemon() -> str:
    with _as_text() as problem:
        binary = find_binary()
        theirs, ours = daemon_version(binary), installed("wiresum")
        if theirs != ours:
            problem.text = f"{binary} is of version {theirs}, and wiresum of {ours}: install both from one build"
    return problem.text


def _why_no_native() -> str:
    try:
        importlib.import_module(native.MODULE)
    except ImportError as missing:
        return native.why_missing(missing)
    return ""


def _why_no_torch() -> str:
    try:
        installed = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return "install torch 2.14 or later"
    major, minor = (int(part) for part in installed.split(".")[:2])
    return "" if (major, minor) >= TORCH_MINIMUM else f"torch {installed} is too old; install 2.14 or later"


def _why_no_extension() -> str:
    from wiresum.torch import extension

    try:
        if extension.find():
            return ""
        wanted = extension.file_name()
    except metadata.PackageNotFoundError:
        return "needs torch"
    if any(map(shutil.which, COMPILER_NAMES)):
        return f"{wanted} is built at first use; `python -m wiresum.torch.build` does so now (about a minute)"
    return f"{wanted} is missing, and there is no C++ compiler to build it: install g++, or a wheel made for this torch"


def _why_no_settings() -> str:
    from wiresum.torch.settings import Settings, misspelt

    try:
        Settings.from_environment()
    except SettingError as wrong:
        return "; ".join([str(wrong), *misspelt()])
    return "; ".join(misspelt())


@dataclass
class _Problem:
    text: str = ""


@contextmanager
def _as_text() -> Iterator[_Problem]:
    """Turns the error of a check into its text."""
    problem = _Problem()
    try:
        yield problem
    except SupportError as missing:
        problem.text = str(missing)


CHECKS: list[tuple[str, str, Callable[[], str]]] = [
    ("network namespaces", "testbed", why_no_namespaces),
    ("veth, bridge, tbf, ifb", "shaped links of the testbed", support.why_no_shaping),
    ("BPF", "aggregation in the kernel", _why_no_bpf),
    ("XDP on veth", "aggregation in the kernel, in the testbed", support.why_no_xdp),
    *([("clang", "building the XDP programs", _why_no_clang)] if BPF_SOURCES.is_dir() else []),
    ("wiresum-node", "aggregators", _why_no_daemon),
    ("wiresum._native", "the PyTorch backend, plan checks", _why_no_native),
    ("torch", "the PyTorch backend", _why_no_torch),
    ("wiresum.torch._c10d", "the PyTorch backend", _why_no_extension),
    ("WIRESUM_ variables", "the PyTorch backend", _why_no_settings),
]
"""What is tried, in order."""

SERVICE_CHECKS: list[tuple[str, str, Callable[[], str]]] = [
    ("capabilities", "the engines xdp and af_xdp", doctor_service.why_no_capabilities),
    ("locked memory", "the engine af_xdp", doctor_service.why_too_little_locked_memory),
    ("AF_XDP for workers", "less processor time than UDP, the default of workers", doctor_transport.why_no_frames),
    ("MTU of 9000 bytes", "fewer packets for servers in user space (plan --jumbo)", doctor_transport.why_no_jumbo),
    ("systemd unit", "an aggregator as a service", doctor_service.why_no_unit),
    ("running aggregator", "wiresum node", doctor_service.why_no_running_daemon),
]
"""What only a server needs."""
