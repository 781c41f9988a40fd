"""How commands speak: results on standard output, everything about them on standard error."""

import json
from typing import Any

from rich.console import Console
from rich.text import Text

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(content: Any) -> None:
    """One JSON document on standard output, without colours or wrapping."""
    print(json.dumps(content, indent=2), flush=True)


def note(message: str) -> None:
    """A remark for people."""
    err.print(Text(message, style="dim"))


def fail(message: str, code: int) -> int:
    """Says what went wrong; returns the exit code."""
    err.print(Text("error: ", style="bold red").append(Text(message, style="default")))
    return code
