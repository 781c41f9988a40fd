"""What is written down before anything is made, so that whatever ends us, someone can clear up after us.

Each testbed has a folder under `root()` with a lock, held while its owner lives, and a record. A folder whose lock is
free belongs to a testbed whose owner is gone.
"""

import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from wiresum.errors import TestbedError
from wiresum.testbed import namespaces, processes
from wiresum.testbed.processes import ProcessId

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,23}")
"""Names of testbeds; they become parts of namespace names."""
RECORD_FILE = "record.json"
LOCK_FILE = "lock"


def root() -> Path:
    """Folder of the testbeds of this user."""
    if os.geteuid() == 0:
        return Path("/run/wiresum/testbed")
    return Path(os.environ.get("XDG_RUNTIME_DIR") or Path.home() / ".cache") / "wiresum" / "testbed"


@dataclass
class Record:
    """What a testbed has made.

    Attributes:
        name: its name.
        topology: name of its topology.
        owner: the process that holds it.
        kept: it outlives its owner, until `wiresum testbed down`.
        token: marks its processes.
        namespaces: names of its network namespaces, by node.
        processes: those that it started.
    """

    name: str
    topology: str = ""
    owner: ProcessId = field(default_factory=lambda: processes.identify(os.getpid()))
    kept: bool = False
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    namespaces: dict[str, str] = field(default_factory=dict)
    processes: list[ProcessId] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The record in a folder; None if there is none, or half of one."""
        try:
            content = json.loads((folder / RECORD_FILE).read_text())
            content["owner"] = ProcessId(**content["owner"])
            content["processes"] = [ProcessId(**process) for process in content["processes"]]
            return cls(**content)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write(self, folder: Path) -> None:
        """Replaces the record in a folder as a whole."""
        draft = folder / f"{RECORD_FILE}.new"
        draft.write_text(json.dumps(asdict(self), indent=2))
        draft.replace(folder / RECORD_FILE)

    def clear_up(self) -> None:
        """Ends the testbed's processes and removes its namespaces.

        Raises:
            TestbedError: a process survives, which would keep its namespace alive.
        """
        survivors = processes.end([*self.processes, *processes.bearing(self.token)])
        # A process in the middle of `exec` has no environment to read, and one may just have forked: look again.
        survivors += processes.end(processes.bearing(self.token))
        namespaces.remove(self.namespaces.values())
        if survivors:
            pids = ", ".join(str(process.pid) for process in survivors)
            raise TestbedError(f"testbed {self.name}: processes {pids} do not end; end them, and take it down again")


@dataclass
class Claim:
    """The right to a testbed's name, held through its lock."""

    folder: Path
    lock: int

    def keep(self) -> None:
        """Gives the lock back and leaves the folder."""
        os.close(self.lock)

    def drop(self) -> None:
        """Removes the folder and gives the lock back."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self.lock)


def claim(name: str, wanted: Iterable[str] = ()) -> Claim:
    """Takes a name for a new testbed; what a dead owner left under it is removed first.

    Args:
        name: of the testbed.
        wanted: names of the namespaces that it will make, and record as its own.

    Raises:
        TestbedError: the name is not one, or it or a namespace's is taken.
    """
    if not NAME.fullmatch(name):
        raise TestbedError(f"`{name}` cannot name a testbed; use up to 24 lower-case letters, digits and hyphens")
    claimed = _try_lock(root() / name)
    record = Record.read(root() / name)
    if claimed is None:
        owner = f" of process {record.owner.pid}" if record else ""
        raise TestbedError(f"testbed {name}{owner} is running; choose another `--name`, or wait for it")
    if record is not None and record.kept:
        claimed.keep()
        raise TestbedError(f"testbed {name} is up; take it down with `wiresum testbed down {name}`")
    if record is not None:
        record.clear_up()
    try:
        namespaces.require_absent(wanted)
    except TestbedError:
        claimed.drop()
        raise
    return claimed


def remove_leftovers() -> list[str]:
    """Removes what killed owners left; returns the names of those testbeds."""
    return [folder.name for folder in _folders() if _remove_leftover(folder)]


def _remove_leftover(folder: Path) -> bool:
    claimed = _try_lock(folder)
    if claimed is None:
        return False
    record = Record.read(folder)
    if record is not None and record.kept:
        claimed.keep()
        return False
    if record is not None:
        record.clear_up()
    claimed.drop()
    return record is not None


def take_down(name: str) -> None:
    """Removes a testbed that was kept, or whose owner is gone.

    Raises:
        TestbedError: there is none, or it is in use.
    """
    folder = root() / name
    record = Record.read(folder)
    if record is None:
        raise TestbedError(f"there is no testbed {name}; `wiresum testbed list` shows those that there are")
    claimed = _try_lock(folder)
    if claimed is None:
        raise TestbedError(f"testbed {name} is in use by process {record.owner.pid}; end that process instead")
    record.clear_up()
    claimed.drop()


def everything() -> list[Record]:
    """The records of all testbeds of this user."""
    return [record for folder in _folders() if (record := Record.read(folder)) is not None]


def _folders() -> list[Path]:
    return sorted(root().iterdir()) if root().is_dir() else []


def _try_lock(folder: Path) -> Claim | None:
    """Locks a folder; None if someone else holds it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_current(lock, folder / LOCK_FILE):
            return Claim(folder, lock)
    except BlockingIOError:
        pass
    os.close(lock)
    return None


def _is_current(lock: int, path: Path) -> bool:
    """Whether the locked file is still the one of that name: its holder may have removed the folder meanwhile."""
    try:
        return os.fstat(lock).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False
