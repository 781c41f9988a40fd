"""Values of options that are what the command takes as they stand: nothing has to be converted.

Typer converts every value by Pydantic, also a text to a text and a default to itself. Pydantic takes longer to import
than a command that lists something takes altogether.
"""

from __future__ import annotations

from typing import Any

from typer import BadParameter
from typer.core import TyperArgument, TyperOption


class _Spared:
    """Converts what has to be converted, and no more."""

    def __init__(self, parameter: Any, make: Any) -> None:
        self._parameter, self._make = parameter, make

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value as the command takes it."""
        if stands(value, param):
            return value
        try:
            return self._make(self._parameter).coerce(value, param=param, ctx=ctx)
        except BadParameter as bad:
            bad.message = in_words(bad.message, value)
            raise


def spare() -> None:
    """From now on values that need no conversion get none. Releases of Typer before 0.29 convert by themselves."""
    for kind in (TyperOption, TyperArgument):
        make = getattr(kind, "get_runtime_param", None)
        if make is None:
            return
        setattr(kind, "get_runtime_param", lambda self, make=make: _Spared(self, make))  # noqa: B010 - as types of methods


def stands(value: Any, parameter: Any) -> bool:
    """Whether a value, from a line or a default, is what its command takes.

    Args:
        value: of an option or argument.
        parameter: Typer's.
    """
    if parameter.multiple or parameter.nargs != 1:
        return False
    wanted = parameter.type_descriptor
    if wanted.choices is not None:
        return value is None or value in wanted.choices
    return value is None or (wanted.annotation in {str, int, float, bool} and type(value) is wanted.annotation)


def in_words(message: str, value: Any) -> str:
    """What Pydantic says of a value, with the value, which it may leave out.

    Example:
        >>> in_words("Input should be a valid integer, unable to parse string as an integer", "x")
        "'x' should be a valid integer, unable to parse string as an integer"
    """
    return message.removeprefix("Value error, ").replace("Input should", f"{value!r} should", 1)
