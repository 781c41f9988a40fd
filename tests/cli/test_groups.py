"""Groups of options: what a command is given, as its group has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from wiresum.bench import BENCHMARKS
from wiresum.commandline.groups import grouped, repeated, text
from wiresum.commandline.quantities import parse_size


@dataclass(frozen=True)
class Options:
    """What to do."""

    size_bytes: Annotated[int, typer.Option("--size")] = text("25MB", parse_size)
    names: Annotated[tuple[str, ...], typer.Option("--name")] = repeated()
    warmups: int = 2
    runs: Annotated[int, typer.Option("--runs", min=1)] = 3


seen: list[Options] = []
app = typer.Typer()


@app.command()
@grouped
def command(chosen: Options) -> None:
    """Remembers its options."""
    seen.append(chosen)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], Options()),
        (["--size", "1KiB", "--runs", "7"], Options(size_bytes=1024, runs=7)),
        (["--name", "a", "--name", "b"], Options(names=("a", "b"))),
    ],
)
def test_a_group_has_what_the_command_line_means(arguments, expected):
    assert Options().size_bytes == 25_000_000
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert seen.pop() == expected


@pytest.mark.parametrize("arguments", [["--size", "much"], ["--runs", "0"], ["--warmups", "1"]])
def test_what_is_no_option_or_no_value_is_refused(arguments):
    assert CliRunner().invoke(app, arguments).exit_code == 2
    assert seen == []


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_options_of_a_benchmark_stand_in_one_place(name):
    """Where they are a group, what measures has the same group."""
    from importlib import import_module

    package = BENCHMARKS[name].run.__module__.removesuffix(".command")
    group = getattr(import_module(f"{package}.command"), "Options", None)
    if group is not None:
        assert import_module(f"{package}.measure").Options is group
