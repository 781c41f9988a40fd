"""Processes that may use no more than their share of the machine."""

import os
import resource
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MEMORY_BYTES = 1 << 30
"""Bytes of address space, which are more than a process ever uses of memory."""
CPU_S = 40
"""Seconds of the processor. 5 are enough on an idle machine, and were too few when the host's memory was slow."""
ROOT = Path(__file__).parents[2]


def run(command: Sequence[str], limit_s: float, file_bytes: int | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command with at most a gigabyte of memory.

    Args:
        command: and its arguments.
        limit_s: after which it is killed. Where it is no more than a minute, `CPU_S` bound it, too.
        file_bytes: size at which files that it writes are full.
    """

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        if limit_s <= 60:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        if file_bytes is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    # Each thread of a linear algebra has its own memory, used or not.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    bounds: dict[str, Any] = {"timeout": limit_s, "preexec_fn": bound, "env": environment, "cwd": ROOT}
    return subprocess.run(command, capture_output=True, text=True, check=False, **bounds)
