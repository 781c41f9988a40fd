"""How commands speak: results on standard output, everything about them on standard error."""

import io
import json
import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def spare_letters() -> None:
    """Has a letter that the terminal's encoding lacks, such as an arrow, become a question mark and not an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def stand_in() -> None:
    """Opens a stream that was closed by whoever started the command, as services do; what is written there is lost."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - as long as the process


PLAIN_COLUMNS = 200
"""Width of tables where there is no terminal: a file, or another program, that needs each row on one line."""


@cache
def out() -> "Console":
    """Standard output."""
    from rich.console import Console

    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(highlight=False, soft_wrap=True, width=None if has_width else PLAIN_COLUMNS)


@cache
def err() -> "Console":
    """Standard error."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(content: Any) -> None:
    """One JSON document on standard output, without colours or wrapping."""
    print(json.dumps(content, indent=2), flush=True)


PLAIN_TERMINALS = {"dumb", "unknown"}
"""What `TERM` is where a terminal has no styles."""
DIM, BOLD_RED, PLAIN = "\x1b[2m", "\x1b[1;31m", "\x1b[0m"


def note(message: str) -> None:
    """A remark for people."""
    print(styled(message, DIM), file=sys.stderr, flush=True)


def styled(text: str, style: str) -> str:
    """A text for standard error as a terminal shows it; Rich does the same, and takes longer to import than to print.

    Args:
        text: without styles of its own.
        style: how its terminal is told.
    """
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in PLAIN_TERMINALS
    return text if is_plain or not sys.stderr.isatty() else f"{style}{text}{PLAIN}"


MAX_WORD = 200
"""Letters of a word in an error: what is longer is a value that somebody has given, at any length."""
MAX_ERROR = 24 * 72
"""Letters of an error about what was given: a screen."""


def screen(message: str) -> str:
    """A message as it fits on a screen: long words are cut, and then the end."""
    short = re.sub(rf"(\S{{{MAX_WORD}}})\S+", r"\1…", message)
    return short if len(short) <= MAX_ERROR else short[:MAX_ERROR] + "…"


def fail(message: str, code: int) -> int:
    """Says what went wrong; returns the exit code."""
    print(f"{styled('error:', BOLD_RED)} {message}", file=sys.stderr, flush=True)
    return code
