"""A client of the control socket of `wiresum-node`; docs/operating.md describes the protocol."""

import json
import os
import socket
from pathlib import Path
from typing import Any

from wiresum.errors import ControlError

VERSION = 1
TIMEOUT_S = 40.0
"""Longer than the daemon takes to answer, which waits for the kernel when a job goes."""
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
        remedy = "is the daemon running, with --control? --socket names another one"
        raise ControlError(f"nobody answers at {path} ({error.strerror or error}); {remedy}") from error
    except ValueError as error:
        raise ControlError(f"the daemon at {path} gave no answer; its log says why") from error
    if not answer.get("ok"):
        raise ControlError(str(answer.get("error", "the daemon refuses without a reason")))
    content: dict[str, Any] = answer
    return content
