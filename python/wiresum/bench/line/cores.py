"""Cores that are slower than the machine's, so that a few processors show what more of them would do.

Each thread of an engine or of a server gets a share of a processor (the kernel's bandwidth control, in a group of its
own), as if it had a core to itself that is so much slower. This is emulation: caches and memory stay as fast as they
are.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from wiresum.errors import TestbedError

PERIOD_US = 5000
"""Microseconds after which a thread has its share again: shorter than packets are under way, so ranks seldom wait."""
LEAST_QUOTA_US = 1000
"""Microseconds that the kernel grants at least; a smaller share has longer periods."""
ENGINE = "wiresum-"
"""How the names of the engine's threads begin."""
SERVING = "node-"
"""How those of a server's threads begin, where it has several."""


@contextlib.contextmanager
def slower_cores(share: float | None, threads: Callable[[], list[int]] | None = None) -> Iterator[None]:
    """Each of these threads has this share of a processor; None: what the machine gives.

    Args:
        share: of each.
        threads: their numbers, asked for only where there is a share; by default those of this process's engines.

    Raises:
        TestbedError: the machine has no such groups, or this process may not make any.
    """
    if share is None:
        yield
        return
    with mounted() as root:
        groups = [root / f"wiresum-line-{os.getpid()}-{thread}" for thread in (threads or engine_threads)()]
        try:
            for group in groups:
                confine(group, share)
            yield
        finally:
            for group in groups:
                release(group)


@contextlib.contextmanager
def mounted() -> Iterator[Path]:
    """A folder of groups with a bandwidth by thread (version 1), as namespaces of networks hide the usual one.

    Raises:
        TestbedError: it has none, or this process may not mount it.
    """
    with tempfile.TemporaryDirectory(prefix="wiresum-cores-") as folder:
        done = subprocess.run(
            ["mount", "-t", "cgroup", "-o", "cpu", "wiresum", folder], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise TestbedError(f"--core-share needs root, and control groups of version 1: {done.stderr.strip()}")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=False)


def engine_threads() -> list[int]:
    """Numbers of the threads of this process's engines."""
    return threads_named(ENGINE, os.getpid())


def serving_threads(process: int) -> list[int]:
    """Numbers of the threads of a server that move packets: its only one, where there are not several."""
    return threads_named(SERVING, process) or [process]


def threads_named(prefix: str, process: int) -> list[int]:
    """Numbers of the threads of a process whose names begin so."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sorted(int(task.name) for task in tasks if (task / "comm").read_text().startswith(prefix))


def confine(group: Path, share: float) -> None:
    """Puts the thread that a group is named after into it, with a share of a processor."""
    group.mkdir()
    period_us = max(PERIOD_US, LEAST_QUOTA_US / share)
    (group / "cpu.cfs_period_us").write_text(str(round(period_us)))
    (group / "cpu.cfs_quota_us").write_text(str(round(share * period_us)))
    (group / "tasks").write_text(group.name.rsplit("-", 1)[1])


def release(group: Path) -> None:
    """Puts a group's thread back among all others, and removes the group; harmless if it is gone."""
    with contextlib.suppress(OSError):
        for thread in (group / "tasks").read_text().split():
            (group.parent / "tasks").write_text(thread)
        group.rmdir()
