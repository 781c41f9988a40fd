"""Processor time and time of commands, each a process of its own, turn by turn with rivals that do nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from wiresum.bench.result import Ratio, Report, Result
from wiresum.errors import TestbedError

AIM_S = 0.25
"""Seconds of processor time of a command that computes nothing: an answer that seems immediate."""
PLAN_AIM_S = 0.6
"""The same, where a plan is made or read."""
BARE, TORCH = "python -c pass", "python -c 'import torch'"
"""What every command of Python pays, and what every training pays."""
SCRIPT = "import sys; sys.argv[0] = 'wiresum'; from wiresum.cli import main; main()"
"""What the installed command `wiresum` does."""
SHOWN = 500
"""Letters of the complaint of a command that fails."""

Progress = Callable[[str], object]


@dataclass(frozen=True)
class Case:
    """A command.

    Attributes:
        line: what Python is told, after its own name.
        aim_s: processor seconds; None for rivals, and for what examines the machine.
        environment: what is set beside the environment.
        codes: exit codes that are an answer.
    """

    line: Sequence[str]
    aim_s: float | None = AIM_S
    environment: Mapping[str, str] | None = None
    codes: Sequence[int] = (0,)


@dataclass(frozen=True)
class Spent:
    """Seconds that a command took: of processors, its children's included, and until it ended."""

    processor: float
    elapsed: float


def cases(plan: Path) -> dict[str, Case]:
    """The rivals and the twelve commands, by name; `plan` is the file of a star's plan."""
    asked = {"_WIRESUM_COMPLETE": "complete_bash", "COMP_WORDS": "wiresum pl", "COMP_CWORD": "1"}
    rivals = {BARE: Case(["-c", "pass"], None)}
    if find_spec("torch"):
        rivals[TORCH] = Case(["-c", "import torch"], None)
    return rivals | {
        "--help": _wiresum("--help"),
        "--version": _wiresum("--version"),
        "version": _wiresum("version"),
        "completion of `pl`": Case(_wiresum().line, AIM_S, asked),
        "plan --help": _wiresum("plan", "--help"),
        "bench --list": _wiresum("bench", "--list"),
        "schema plan": _wiresum("schema", "plan"),
        "topology star": _wiresum("topology", "star"),
        "plan star": _wiresum("plan", "star", "-o", f"{plan}.new", aim_s=PLAN_AIM_S),
        "explain": _wiresum("explain", str(plan), aim_s=PLAN_AIM_S),
        "predict": _wiresum("predict", str(plan), "-t", "star", aim_s=PLAN_AIM_S),
        "doctor": _wiresum("doctor", aim_s=None, codes=(0, 1, 3)),
    }


def _wiresum(*arguments: str, aim_s: float | None = AIM_S, codes: Sequence[int] = (0,)) -> Case:
    return Case(["-c", SCRIPT, *arguments], aim_s, codes=codes)


def measure(runs: int, progress: Progress = lambda line: None) -> Report:
    """Runs every command once unmeasured, then all of them turn by turn.

    The first turn compiles every module into a folder of its own, as pip does when it installs: neither a tree that
    was never compiled nor an environment that forbids it counts.

    Raises:
        TestbedError: a command failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        plan, compiled = Path(folder) / "plan.json", Path(folder) / "compiled"
        spent(_wiresum("plan", "star", "-o", str(plan)), compiled)
        chosen = cases(plan)
        found: dict[str, list[Spent]] = {name: [] for name in chosen}
        for turn in range(runs + 1):
            progress(f"turn {turn + 1} of {runs + 1}")
            for name, case in chosen.items():
                taken = spent(case, compiled)
                if turn:
                    found[name].append(taken)
    return to_report(runs, chosen, found)


def spent(case: Case, compiled: Path) -> Spent:
    """Runs a command to its end, with compiled modules in a folder.

    Raises:
        TestbedError: it failed.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began_s = time.monotonic()
    with subprocess.Popen(
        [sys.executable, *case.line],
        env={**kept, "PYTHONPYCACHEPREFIX": str(compiled), **(case.environment or {})},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        complaint = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in case.codes:
        raise TestbedError(f"`{' '.join(case.line)}` ended with {process.returncode}: {complaint[-SHOWN:].strip()}")
    return Spent(usage.ru_utime + usage.ru_stime, time.monotonic() - began_s)


def to_report(runs: int, chosen: Mapping[str, Case], found: Mapping[str, Sequence[Spent]]) -> Report:
    """Medians, what each command takes of the processor time of PyTorch's import, and missed aims."""
    processor = {
        name: Result(name, "s of processor", [one.processor for one in taken], {"aim_s": chosen[name].aim_s})
        for name, taken in found.items()
    }
    elapsed = [Result(f"{name}, until it ends", "s", [one.elapsed for one in taken]) for name, taken in found.items()]
    parameters = {"runs": runs, "aim_s": AIM_S, "plan_aim_s": PLAN_AIM_S}
    results = [*processor.values(), *elapsed]
    return Report("start", parameters, results, list(_ratios(processor)), notes=list(_missed(processor)))


def _ratios(processor: Mapping[str, Result]) -> Iterator[Ratio]:
    """Over PyTorch's import, or where PyTorch is not there, over a bare Python."""
    rival = TORCH if TORCH in processor else BARE
    for name, mine in processor.items():
        if name not in (BARE, TORCH):
            yield Ratio(f"{name} / {rival}", mine.median / processor[rival].median)


def _missed(processor: Mapping[str, Result]) -> Iterator[str]:
    for name, result in processor.items():
        aim = result.extra["aim_s"]
        if aim is not None and result.median > aim:
            yield f"{name} takes {result.median:.2f} s of processor time, the aim is {aim:g} s"
