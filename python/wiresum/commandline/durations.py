"""How long commands took on this machine, so that the next run of the same can say how long it will take."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

MAX_KEPT = 200
"""Commands that are remembered; the oldest one goes first."""
KEY_LEN = 16
"""Hexadecimal digits of a command's digest: the command itself may have a password in an address."""
REFUSED = (OSError, ValueError, RuntimeError)
"""No home, a read-only one, or a file that something else has written: then nothing is remembered."""


def last_s() -> float | None:
    """Seconds that the command of this process took at last; None if nothing is known."""
    known = _read().get(_key())
    return float(known) if isinstance(known, int | float) and known > 0 else None


def keep(seconds: float) -> None:
    """Remembers how long the command of this process took, if there is a place for it."""
    known = {key: value for key, value in _read().items() if key != _key()}
    kept = dict([*known.items(), (_key(), round(seconds, 1))][-MAX_KEPT:])
    with suppress(*REFUSED):
        file = _file()
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(kept), encoding="utf-8")
        draft.replace(file)


def _read() -> dict[str, Any]:
    with suppress(*REFUSED):
        known = json.loads(_file().read_text(encoding="utf-8"))
        return known if isinstance(known, dict) else {}
    return {}


def _key() -> str:
    return hashlib.sha256("\0".join(sys.argv[1:]).encode("utf-8", "surrogateescape")).hexdigest()[:KEY_LEN]


def _file() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "wiresum" / "durations.json"
