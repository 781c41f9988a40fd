"""How commands speak: results on standard output, everything about them on standard error."""

import json
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


@cache
def out() -> "Console":
    """Standard output."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


@cache
def err() -> "Console":
    """Standard error."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(content: Any) -> None:
    """One JSON document on standard output, without colours or wrapping."""
    print(json.dumps(content, indent=2), flush=True)


def note(message: str) -> None:
    """A remark for people."""
    from rich.text import Text

    err().print(Text(message, style="dim"))


def fail(message: str, code: int) -> int:
    """Says what went wrong; returns the exit code."""
    from rich.text import Text

    err().print(Text("error: ", style="bold red").append(Text(message, style="default")))
    return code
