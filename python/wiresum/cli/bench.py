"""`wiresum bench`: every figure that the documentation claims, with its rival in the same run."""

import shlex
from typing import Annotated, Any

import typer

from wiresum.bench import BENCHMARKS
from wiresum.commandline.contents import Command, Listed, Section

QUICK = "--quick"


class Benchmarks(Listed):
    """The benchmarks as commands."""

    known = BENCHMARKS

    def made(self, name: str) -> Any:
        """A benchmark as typer has it."""
        one = BENCHMARKS[name]
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        epilog = f"{QUICK} stands for `{one.quick}`. Example: `wiresum bench {name} {one.example}`"
        alone.command(name, cls=Command, rich_help_panel=one.panel, epilog=epilog)(one.run)
        return typer.main.get_command(alone)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """A benchmark, and its arguments: `--quick` becomes what it stands for, and options beside it still count."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and QUICK in rest:
            rest = [*shlex.split(BENCHMARKS[name].quick), *(word for word in rest if word != QUICK)]
        return name, command, rest


app = Section("Measure the product beside its rivals.", Benchmarks)


def list_benchmarks(asked: bool) -> None:
    """Prints a line for each benchmark: its name, and what it does."""
    if asked:
        width = max(map(len, BENCHMARKS))
        for name, one in BENCHMARKS.items():
            print(f"{name:{width}}  {one.summary}")
        raise typer.Exit


@app.callback()
def options(
    listed: Annotated[
        bool,
        typer.Option(
            "--list", help="List the benchmarks, one a line, and exit", callback=list_benchmarks, is_eager=True
        ),
    ] = False,
) -> None:
    """Measure the product beside its rivals: `wiresum bench NAME --quick` takes seconds where it can."""
