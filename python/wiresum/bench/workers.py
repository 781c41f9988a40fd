"""Workers of a benchmark without PyTorch: one at each worker of a testbed, each of which prints its answer as JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from wiresum.errors import TestbedError
from wiresum.testbed import Testbed


def answers(bed: Testbed, commands: Sequence[Sequence[str]], what: str, patience_s: float) -> list[Any]:
    """What all workers have printed when they have ended.

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
        raise TestbedError(f"{who} takes longer than {patience_s:g} s") from None
    if child.returncode:
        last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise TestbedError(f"{who} ended with {child.returncode}: {last[0]}")
    return json.loads(output)
