"""A client of the control socket of `wiresum-node`; docs/operating.md describes the protocol."""

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from wiresum.errors import ControlError

VERSION = 1
TIMEOUT_S = 40.0
"""Longer than the daemon takes to answer, which waits for the kernel when a job goes."""
UPGRADE_S = 60.0
"""From the start of a successor until it serves: the verifier takes seconds on a busy machine."""
UPGRADE_POLL_S = 0.05
MAX_ANSWER_BYTES = 16 << 20
"""A status of the most jobs is some ten kilobytes."""


def default_socket(node: int = 0) -> Path:
    """Where the daemon of a node listens unless it is told otherwise."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path("/run") if os.geteuid() == 0 or not runtime else Path(runtime)
    return folder / "wiresum" / f"node-{node}.sock"


def ask(path: Path, request: str, **fields: Any) -> dict[str, Any]:
    """Sends one request and returns the answer.

    Args:
        path: of the control socket.
        request: its name.
        fields: what belongs to it.

    Raises:
        ControlError: nobody answers at the socket, or the daemon refuses; the message says why.
    """
    line = json.dumps({"version": VERSION, "request": request, **fields}) + "\n"
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(TIMEOUT_S)
            client.connect(str(path))
            client.sendall(line.encode())
            with client.makefile("rb") as answers:
                answer = json.loads(answers.readline(MAX_ANSWER_BYTES))
    except OSError as error:
        is_other = path.exists() and not path.is_socket()
        reason = "it is no socket" if is_other else error.strerror or error
        remedy = "start the daemon with --control, or name its socket"
        raise ControlError(f"nobody answers at {path} ({reason}); {remedy}") from error
    except ValueError as error:
        raise ControlError(
            f"the daemon at {path} gave no answer; look at its log, which it writes to stderr"
        ) from error
    if not answer.get("ok"):
        raise ControlError(
            str(answer.get("error", f"the daemon at {path} refuses and gives no reason; look at its log"))
        )
    content: dict[str, Any] = answer
    return content


def upgrade(path: Path) -> int:
    """Has the daemon start its successor, and waits until that serves.

    Args:
        path: of the control socket.

    Returns:
        The process of the successor.

    Raises:
        ControlError: the successor did not take over; the former daemon goes on.
    """
    successor = int(ask(path, "upgrade")["process"])
    deadline = time.monotonic() + UPGRADE_S
    while time.monotonic() < deadline:
        seen = _status_or_none(path)
        if seen and seen["process"] == successor:
            return successor
        if seen and "error" in (seen["upgrade"] or {}):
            raise ControlError(str(seen["upgrade"]["error"]))
        time.sleep(UPGRADE_POLL_S)
    raise ControlError(f"the new daemon, process {successor}, does not serve after {UPGRADE_S:.0f} s; look at its log")


def _status_or_none(path: Path) -> dict[str, Any] | None:
    """None if the daemon that was asked has just handed over, so that nobody answers."""
    try:
        return ask(path, "status")
    except ControlError:
        return None
