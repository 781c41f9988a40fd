"""Files that commands are given in other formats than Wiresum's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from wiresum.errors import WiresumError


def read_text(file: Path, error: type[WiresumError]) -> str:
    """The text of a file.

    Args:
        file: its path.
        error: what to raise where it cannot be read.

    Raises:
        WiresumError: an `error`; the message names the file.
    """
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unreadable:
        raise error(f"{file} cannot be read ({unreadable}); check the path") from None
