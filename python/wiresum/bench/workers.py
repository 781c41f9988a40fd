"""Workers of a benchmark, one at each worker of a testbed: what they print, or what rank 0 writes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from wiresum.errors import TestbedError
from wiresum.testbed import Testbed, run_or_fail


class Viewed(Protocol):
    """What ranks are told that leave their view to rank 0; a `RankTask`."""

    @property
    def output(self) -> str:
        """File for the view."""

    def command(self) -> list[str]:
        """What a rank runs."""


def view(
    bed: Testbed, task: Viewed, what: str = "the benchmark", show: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """What rank 0 has written when all ranks have ended; arguments and errors are those of `run_or_fail`."""
    run_or_fail(bed, task.command(), what, show)
    content: dict[str, Any] = json.loads(Path(task.output).read_text(encoding="utf-8"))
    return content


def answers(bed: Testbed, commands: Sequence[Sequence[str]], what: str, patience_s: float) -> list[Any]:
    """What all workers, without PyTorch, have printed as JSON when they have ended.

    Args:
        bed: where they run.
        commands: program and arguments of each, by rank.
        what: they take part in, for errors.
        patience_s: seconds that one may take.

    Raises:
        TestbedError: one failed, or took longer; the message has its last words.
    """
    started = [
        bed.spawn(worker, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for worker, command in zip(bed.workers, commands, strict=True)
    ]
    return [_answer(child, f"{what}: worker {rank}", patience_s) for rank, child in enumerate(started)]


def _answer(child: subprocess.Popen[bytes], who: str, patience_s: float) -> Any:
    try:
        output, errors = child.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        raise TestbedError(f"{who} has not ended within {patience_s:g} s; see what else uses the processors") from None
    if child.returncode:
        last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise TestbedError(f"{who} ended with {child.returncode}: {last[0]}")
    return json.loads(output)
