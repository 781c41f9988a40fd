"""Generators of topologies as command-line options: names, types and help come from their signatures and docstrings.

A parameter `rate_bps` is the option `--rate`, given as 500mbit; `memory_bytes` is `--memory`, as 64MB; `dark_s` is
`--dark`, as 20ms.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import typer

from wiresum.commandline.quantities import UNLIMITED, parse_rate, parse_seconds, parse_size
from wiresum.errors import TopologyError
from wiresum.topology.generators import TOPOLOGIES

if TYPE_CHECKING:
    from wiresum.topology.model import Topology


@dataclass(frozen=True)
class Option:
    """A generator's parameter.

    Attributes:
        parameter: its name there, with its unit.
        kind: its type: int, float, bool, str or a `Literal`.
        optional: whether it may be absent, or without bound.
        default: its default there.
        help: what the docstring says.
    """

    parameter: str
    kind: Any
    optional: bool
    default: Any
    help: str

    @property
    def name(self) -> str:
        """The parameter without its unit."""
        return re.sub(r"_(bps|bytes|s)$", "", self.parameter)

    @property
    def typer_kind(self) -> Any:
        """What typer reads: quantities are text, as 10gbit or 64MB."""
        kind = str if self.name != self.parameter else self.kind
        return kind | None

    def value(self, given: Any) -> Any:
        """From what was given to what the generator takes.

        Raises:
            typer.BadParameter: it is of another type, or absent where it may not be.
        """
        if self.parameter.endswith("_bps"):
            return self._present(parse_rate(given))
        if self.parameter.endswith("_bytes"):
            return self._present(None if given == UNLIMITED else parse_size(given))
        if self.parameter.endswith("_s"):
            return parse_seconds(given)
        return given if not isinstance(given, str) else self._from_text(given)

    def _present(self, value: Any) -> Any:
        if value is None and not self.optional:
            raise typer.BadParameter(f"it cannot be `{UNLIMITED}`; give a value, as 100mbit or 64MB")
        return value

    def _from_text(self, text: str) -> Any:
        if get_origin(self.kind) is Literal:
            return text  # The generator names the alternatives.
        if self.kind is bool:
            return text.lower() in {"1", "true", "yes", "on"}
        try:
            return self.kind(text)
        except ValueError:
            raise typer.BadParameter(f"{text} is not {_noun(self.kind)}") from None


def options_of(generator: Callable[..., Topology]) -> list[Option]:
    """A generator's parameters."""
    signature = inspect.signature(generator, eval_str=True, locals={"Topology": object})
    help_of = dict(_documented(generator.__doc__ or ""))
    return [
        Option(
            name,
            _without_none(parameter.annotation),
            type(None) in get_args(parameter.annotation),
            parameter.default,
            help_of.get(name, ""),
        )
        for name, parameter in signature.parameters.items()
    ]


def generate(name: str, given: dict[str, Any]) -> Topology:
    """Makes a topology.

    Args:
        name: of the generator.
        given: options without units, as text or values; None stands for the default.

    Raises:
        TopologyError: the generator takes no such option, or not this value.
    """
    known = {option.name: option for option in options_of(TOPOLOGIES[name])}
    wanted = {key.replace("-", "_"): value for key, value in given.items() if value is not None}
    stranger = next((key for key in wanted if key not in known), None)
    if stranger is not None:
        takes = ", ".join(f"--{key.replace('_', '-')}" for key in known)
        raise TopologyError(
            f"the topology {name} takes no --{stranger.replace('_', '-')}; leave it out (topology {name} takes {takes})"
        )
    return TOPOLOGIES[name](**{known[key].parameter: _value(known[key], value) for key, value in wanted.items()})


def _value(option: Option, given: Any) -> Any:
    """Topologies are also named in files, whose errors are told with their line: not as options of a command."""
    try:
        return option.value(given)
    except typer.BadParameter as bad:
        raise TopologyError(f"{option.name.replace('_', '-')}: {bad.message}") from None


def command(name: str, show: Callable[[Topology], None]) -> Callable[..., None]:
    """A function whose signature typer can read, for one generator."""
    generator = TOPOLOGIES[name]

    def run(**given: Any) -> None:
        show(generate(name, given))

    run.__doc__ = (generator.__doc__ or "").split("\n\n    Args:")[0]
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                option.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=typer.Option(None, *_flags(option.name), help=_help(option)),
                annotation=option.typer_kind,
            )
            for option in options_of(generator)
        ]
    )
    return run


def split_spec(text: str) -> tuple[str, dict[str, str]]:
    """`fat-tree:k=8,hosts_per_edge=6` as a name and options.

    Raises:
        TopologyError: an option without a value.
    """
    name, _, rest = text.partition(":")
    pairs = [pair.partition("=") for pair in rest.split(",") if pair]
    bare = next((key for key, equals, _ in pairs if not equals), None)
    if bare is not None:
        raise TopologyError(f"topology {text}: {bare} has no value; write {name}:{bare}=VALUE")
    return name, {key: value for key, _, value in pairs}


def _flags(name: str) -> tuple[str, ...]:
    flag = f"--{name.replace('_', '-')}"
    return (flag, "-n") if name == "workers" else (flag,)


def _help(option: Option) -> str:
    default = "none" if option.default is None else option.default
    return f"{option.help[:1].upper()}{option.help[1:]} [default: {_shown(option, default)}]"


def _shown(option: Option, default: Any) -> str:
    if isinstance(default, float) and option.parameter.endswith("_bps"):
        return f"{default / 1e9:g}gbit" if default >= 1e9 else f"{default / 1e6:g}mbit"  # noqa: PLR2004 - a gbit
    if isinstance(default, int) and option.parameter.endswith("_bytes"):
        return f"{default / 1e6:g}MB"
    if isinstance(default, float) and option.parameter.endswith("_s"):
        return f"{default * 1e3:g}ms"
    return str(default)


def _documented(docstring: str) -> Iterator[tuple[str, str]]:
    """The section `Args` by name."""
    section = re.search(r"Args:\n(.*?)\n\n", docstring, flags=re.DOTALL)
    if section:
        for match in re.finditer(r"^ {8}(\w+): (.*(?:\n {12}.*)*)", section[1], flags=re.MULTILINE):
            yield match[1], re.sub(r"\s+", " ", match[2]).rstrip(".")


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in {Union, types.UnionType}:
        return hint
    return next(one for one in get_args(hint) if one is not type(None))


def _noun(kind: Any) -> str:
    return {int: "a whole number", float: "a number"}.get(kind, "another value")
