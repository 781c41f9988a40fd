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
    from wiresum import document

    return document.read_text(file, "file", error)
