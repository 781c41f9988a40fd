"""What a benchmark is to the command line, and what the benchmarks' commands have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from wiresum.commandline.console import note, out, print_json
from wiresum.commandline.groups import Reading, grouped, read, text
from wiresum.commandline.options import EngineChoice, HtmlOption, JsonOption, choose_engine
from wiresum.commandline.quantities import parse_rate, parse_size
from wiresum.plan.choices import Engine, Policy

if TYPE_CHECKING:
    from wiresum.bench.result import Report
    from wiresum.commandline.progress import Working

T = TypeVar("T")

ENGINES: tuple[Engine, ...] = ("xdp", "udp")
POLICIES: tuple[Policy, ...] = ("pool", "cache")

INTERRUPTED = "interrupted: these are the cases that were complete"

Panel = Literal[
    "All-reduces and trainings",
    "Packets, on one core",
    "Planners, simulator, networks of switches",
    "Running aggregators",
    "The command line",
]
"""Headings of the help."""

RunsOption = Annotated[int, typer.Option("--runs", min=1, help="Number of measured runs of each case")]


@dataclass(frozen=True)
class Benchmark:
    """A benchmark as the command line and `make bench` know it.

    Attributes:
        run: the command, a function whose parameters are options.
        panel: heading of the help under which it stands.
        example: options of a typical call.
        repeated: options of the calls that `make bench` makes, by the name of the JSON file of each.
        quick: options that `--quick` stands for: small cases, for a first look.
    """

    run: Callable[..., None]
    panel: Panel
    example: str
    repeated: Mapping[str, str]
    quick: str

    @property
    def summary(self) -> str:
        """The first line of its help."""
        return (self.run.__doc__ or "").strip().partition("\n")[0]


def command(
    panel: Panel, example: str, repeated: Mapping[str, str] | None = None, *, quick: str
) -> Callable[[Callable[..., None]], Benchmark]:
    """Makes a function a benchmark; `Benchmark` has what the arguments mean."""
    return lambda run: Benchmark(grouped(run), panel, example, repeated or {}, quick)


@dataclass(frozen=True)
class Output:
    """How an outcome is shown."""

    as_json: JsonOption = False
    html: HtmlOption = None


def show(report: Report, output: Output, tell: Callable[[Report], None] | None = None) -> None:
    """One JSON object for machines, a table for people; and a page, where a file for one is given.

    Args:
        report: the outcome.
        output: as what it is shown.
        tell: prints it for people; by default a row for each result.
    """
    if output.html:
        from wiresum.bench.html import page

        page(report).write(output.html)
        note(f"{output.html}: the report as a page")
    if output.as_json:
        print_json(report.to_json())
    elif tell:
        tell(report)
    else:
        from wiresum.bench.table import render

        out().print(render(report))


@contextmanager
def measuring(what: str, output: Output) -> Iterator[Working]:
    """Shows that a benchmark is at work; one that is interrupted shows what it has measured until then.

    Args:
        what: the work, as a phrase.
        output: how results are shown.

    Yields:
        What is told how far it is.
    """
    from wiresum.bench.result import Report, collected
    from wiresum.commandline.progress import working

    with collected() as results:
        try:
            with working(what) as task:
                yield task
        except KeyboardInterrupt:
            if results:
                show(Report(what, {}, list(results.values()), notes=[INTERRUPTED]), output)
            raise


def suitable_engine() -> Engine:
    """A field for the engine: on the command line, the one that suits the machine unless one is named."""
    return read("xdp", Reading(EngineChoice, "auto", partial(choose_engine, loopback=False)))


def some_of(known: tuple[T, ...], option: str) -> tuple[T, ...]:
    """A field for a comma-separated list of names; all of them where the option is not given."""
    return text(_joined(known), lambda given: tuple(one_of(name, known, option) for name in given.split(",")))


def some_or_none(known: tuple[T, ...], option: str, default: tuple[T, ...] | None = None) -> tuple[T, ...]:
    """The same, but that the list may be empty, and that others may be the default."""
    return text(
        _joined(known if default is None else default),
        lambda given: tuple(one_of(name, known, option) for name in given.split(",") if name),
    )


def _joined(names: tuple[T, ...]) -> str:
    return ",".join(map(str, names))


def counts(default: str, option: str, least: int = 1, most: int | None = None) -> tuple[int, ...]:
    """A field for a comma-separated list of numbers, each from `least` up, and to `most` where that is given."""
    return text(default, partial(parse_counts, option=option, least=least, most=most))


def parse_counts(given: str, option: str, least: int = 1, most: int | None = None) -> tuple[int, ...]:
    """Numbers from `2,4`.

    Raises:
        typer.BadParameter: one is no number, too small or too large.
    """
    numbers = [int(word) if word.isdecimal() else -1 for word in given.split(",")]
    if not all(least <= number and (most is None or number <= most) for number in numbers):
        upwards = "up" if most is None else f"to {most}"
        raise typer.BadParameter(
            f"{given} is not a list of numbers from {least} {upwards}, comma-separated", param_hint=option
        )
    return tuple(numbers)


def parse_sizes(given: str) -> tuple[int, ...]:
    """Bytes of tensors from `1MB,25MB`.

    Raises:
        typer.BadParameter: one is no size.
    """
    return tuple(map(parse_size, given.split(",")))


def limited(rate: str) -> float:
    """bit/s of links that have to have a rate, as a bound is computed from it."""
    rate_bps = parse_rate(rate)
    if rate_bps is None:
        raise typer.BadParameter("the bound needs a rate; give one, as 500mbit", param_hint="--rate")
    return rate_bps


def parse_models(given: list[str]) -> dict[str, int]:
    """Bytes by name from `ResNet50=97MB`.

    Raises:
        typer.BadParameter: it has another form.
    """
    pairs = [text.partition("=") for text in given]
    nameless = next((name for name, _, size in pairs if not (name and size)), None)
    if nameless is not None:
        raise typer.BadParameter(f"{nameless} is not a model; give NAME=SIZE, as ResNet50=97MB", param_hint="--model")
    return {name: parse_size(size) for name, _, size in pairs}


def one_of(name: str, known: tuple[T, ...], option: str) -> T:
    """What an option names.

    Raises:
        typer.BadParameter: it is not known.
    """
    found = next((candidate for candidate in known if candidate == name), None)
    if found is None:
        raise typer.BadParameter(f"{name} is not one of {', '.join(map(str, known))}", param_hint=option)
    return found
