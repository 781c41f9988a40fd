"""Commands whose options come in groups: dataclasses of options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, TypeVar, get_type_hints

from typer import BadParameter
from typer.models import OptionInfo

T = TypeVar("T")
READING = "reading"
"""Key of a `Reading` in a field's metadata."""


@dataclass(frozen=True)
class Reading:
    """How the command line gives a field that has another type there.

    Attributes:
        type: of the option.
        default: of the option.
        parse: what it gives as the field has it.
    """

    type: Any
    default: Any
    parse: Callable[[Any], Any]


def read(default: T, reading: Reading) -> T:
    """A field of a group with another default, and another type, than its option."""
    made: T = field(default_factory=lambda: default, metadata={READING: reading})
    return made


def text(default: str, parse: Callable[[str], T]) -> T:
    """A field whose option is a text, such as a rate with its unit."""
    return read(parse(default), Reading(str, default, parse))


def repeated(*default: str) -> tuple[str, ...]:
    """A field whose option may be given more than once, or not at all."""
    return read(default, Reading(list[str] | None, None, lambda given: tuple(given or default)))


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command as typer reads it: instead of each parameter whose type is a group, the group's fields.

    Fields are options as parameters are: annotated with a `typer.Option`, and with a default, or a `Reading` of what
    the command line gives. Fields without a `typer.Option` keep their defaults.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hints[name] for name in inspect.signature(command).parameters if is_dataclass(hints[name])}

    @wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: group(**{one.name: _parsed(one, given.pop(one.name)) for one, _ in _options(group)})
            for name, group in groups.items()
        }
        command(**made, **given)

    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += [_parameter(one, annotation) for one, annotation in _options(groups[name])]
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(kind=kind, annotation=hints[name]))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def given(group: Any) -> list[str]:
    """Names of a group's options whose values are not their defaults.

    Args:
        group: an instance of a dataclass of options, all of which have defaults.
    """
    plain = type(group)()
    changed = [one.name for one in fields(group) if getattr(group, one.name) != getattr(plain, one.name)]
    return [f"--{name.replace('_', '-')}" for name in changed]


def present(options: Mapping[str, object]) -> list[str]:
    """Names of the options that are given, of some that would do nothing."""
    return [name for name, value in options.items() if value]


def refuse(options: Sequence[str], why: str) -> None:
    """Options that would do nothing are refused.

    Raises:
        typer.BadParameter: there is one.
    """
    if options:
        raise BadParameter(f"{options[0]}: {why}")


def _options(group: Any) -> list[tuple[Field[Any], Any]]:
    """Fields that are options, with their annotations."""
    types = get_type_hints(group, include_extras=True)
    annotated = [(one, types[one.name]) for one in fields(group)]
    return [(one, of) for one, of in annotated if isinstance(getattr(of, "__metadata__", (None,))[0], OptionInfo)]


def _parsed(one: Field[Any], value: Any) -> Any:
    return one.metadata[READING].parse(value) if READING in one.metadata else value


def _parameter(one: Field[Any], annotation: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if one.default is MISSING else one.default
    if reading := one.metadata.get(READING):
        annotation, default = Annotated[reading.type, *annotation.__metadata__], reading.default
    return inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
