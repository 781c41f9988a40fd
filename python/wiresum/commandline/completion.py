"""Words that a shell completes: names of registries, one or several, and files beside them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from typer._completion_classes import completion_init  # where it is defined: `typer.completion` does not export it
from typer.completion import install_callback, show_callback
from typer.core import TyperArgument, TyperOption

from wiresum.errors import SupportError

VARIABLE = "_WIRESUM_COMPLETE"
"""What shells set when they ask for words."""
MOST_FILES = 100
"""Files of a folder that are offered."""

show = show_callback
"""Callback of the option that prints the shell's script."""


def install(ctx: Any, parameter: Any, value: Any) -> Any:
    """Callback of the option that writes the shell's script into the home directory.

    Raises:
        SupportError: nothing can be written there.
    """
    try:
        return install_callback(ctx, parameter, value)
    except OSError as refused:
        raise SupportError(
            f"{refused.filename}: {refused.strerror}; `wiresum --show-completion` prints the script instead"
        ) from refused


def prepare() -> None:
    """Where a shell asks for words: the shells are known, and what takes long to import stays out.

    Typer cleans descriptions of their markup by Rich, and converts what stands in the line by Pydantic. Either takes
    longer to import than everything else together, and no word depends on it.
    """
    if VARIABLE in os.environ:
        sys.modules["rich"] = None  # type: ignore[assignment]
        for parameter in (TyperOption, TyperArgument):
            setattr(parameter, "process_value", _as_typed)  # noqa: B010 - types of methods are not to be assigned
        completion_init()


def _as_typed(_parameter: object, _context: object, value: object) -> object:
    """What stands in a line that is not run."""
    return value


def name(known: Iterable[str], *ends: str) -> Callable[[str], list[str]]:
    """Completes one name, or a file.

    Args:
        known: names.
        ends: of files that may stand instead, as `.json`.

    Example:
        >>> name(["goat", "ps"])("g")
        ['goat']
    """
    return lambda incomplete: [one for one in known if one.startswith(incomplete)] + _files(incomplete, ends)


def names(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Completes the last of several names with commas between them; names that are there are not offered again.

    Example:
        >>> names(["goat", "ps"])("goat,")
        ['goat,ps']
    """

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        there = before.split(",")
        return [before + comma + one for one in known if one.startswith(last) and one not in there]

    return complete


def _files(incomplete: str, ends: tuple[str, ...]) -> list[str]:
    """Files with these ends, and folders on the way to them."""
    if not ends:
        return []
    folder, _, start = incomplete.rpartition("/")
    try:
        there = sorted(Path(folder or ("/" if incomplete.startswith("/") else ".")).iterdir())
    except OSError:
        return []
    begins = incomplete.removesuffix(start)
    shown = [one for one in there if one.name.startswith(start) and (start or not one.name.startswith("."))]
    found = [begins + one.name + ("/" if one.is_dir() else "") for one in shown if one.is_dir() or one.suffix in ends]
    return found[:MOST_FILES]
