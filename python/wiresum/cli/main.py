"""Table of contents of the command `wiresum`.

Exit codes: 0 success; 1 failure; 2 wrong usage; 3 a privilege or support is missing on this machine;
4 the planner advises against summing in the network;
`testbed run` ends with the exit code of the first worker that fails.
"""

import sys
from typing import Annotated, Any

import typer

from wiresum.commandline import completion, values
from wiresum.commandline.console import fail, screen, spare_letters, stand_in
from wiresum.commandline.contents import Command, Listed
from wiresum.errors import (
    NotWorthwhileError,
    PlanError,
    ScenarioError,
    ScheduleError,
    SupportError,
    TopologyError,
    TraceError,
    WiresumError,
    WorkloadError,
)
from wiresum.registry import Registry

FAILURE = 1
USAGE = 2
UNSUPPORTED = 3
NOT_WORTHWHILE = 4

COMMANDS: Registry[Any] = Registry(
    {
        "demo": "wiresum.cli.demo:demo",
        "plan": "wiresum.cli.plan:plan",
        "keys": "wiresum.cli.keys:keys",
        "compare": "wiresum.cli.compare:compare",
        "schedule": "wiresum.cli.schedule:schedule",
        "explain": "wiresum.cli.explain:explain",
        "adjust": "wiresum.cli.adjust:adjust",
        "predict": "wiresum.cli.predict:predict",
        "reproduce": "wiresum.cli.reproduce:reproduce",
        "simulate": "wiresum.cli.simulate:simulate",
        "schema": "wiresum.cli.schema:schema",
        "selftest": "wiresum.cli.selftest:selftest",
        "top": "wiresum.cli.top:top",
        "doctor": "wiresum.cli.doctor:doctor",
        "version": "wiresum.cli.version:version",
        "testbed": "wiresum.cli.testbed:app",
        "topology": "wiresum.cli.topology:app",
        "circuits": "wiresum.cli.circuits:app",
        "workload": "wiresum.cli.workload:app",
        "bench": "wiresum.cli.bench:app",
        "node": "wiresum.cli.node:app",
        "sparse": "wiresum.cli.sparse:app",
    }
)
"""Functions of commands and apps of groups, in the order of the help; one is imported when it is asked for."""
SUMMARIES = {
    "demo": "Train a network on real images over links that sum gradients, then over Gloo, and compare.",
    "plan": "Place a job on a topology: which node sums what.",
    "keys": "Write the keys of one node, which its daemon takes in place of the job's secret.",
    "compare": "Compare planners or schedulers by cost and time; or simulations and a live run of one scenario.",
    "schedule": "Schedule jobs over optical circuits and places at switches, with a proven bound.",
    "explain": "Say in plain words who sums what in a plan, or who sends when in a schedule and whom it waits for.",
    "adjust": "Replan after a failure or overload, between two rounds and with few changes.",
    "predict": "Predict the time of a plan's collective by max-min fair sharing of each link, without running it.",
    "reproduce": "Print every statement of a paper: as printed, computed again, and measured here by benchmarks.",
    "simulate": "Simulate jobs in virtual time, packet by packet with the code that runs live, or as flows.",
    "schema": "Print the JSON schema of a file format.",
    "selftest": "Send fragments from this host through every node of a plan, and say what they met.",
    "top": "Show the jobs of running daemons live: seats, rates, sums, losses. Ctrl-C ends it.",
    "doctor": "Try what Wiresum needs, and say what to do about what is missing.",
    "version": "Print the versions of Wiresum, PyTorch, Python and the kernel.",
    "testbed": "Build networks of namespaces on this machine and run commands in them.",
    "topology": "Print a topology, to change it and use it as a file.",
    "circuits": "Read, order and emulate optical circuit switches.",
    "workload": "Make a file of jobs, or import one from a trace.",
    "bench": "Measure the product beside its rivals.",
    "node": "Jobs of a running daemon: add, remove, bound, watch.",
    "sparse": "Draw and count which rows of its tables a sparse model touches.",
}
"""The first line of the help of each, so that the list of all takes no import."""


class Commands(Listed):
    """The commands of `COMMANDS`."""

    known = COMMANDS

    def made(self, name: str) -> Any:
        """A command or a group, as typer has it."""
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        there = COMMANDS[name]
        if isinstance(there, typer.Typer):
            alone.add_typer(there, name=name)
            group: Any = typer.main.get_command(alone)
            return group.commands[name]
        alone.command(name, cls=Command)(there)
        return typer.main.get_command(alone)

    def line(self, ctx: Any, name: str) -> tuple[str, str]:
        """Its panel and summary."""
        return "Commands", SUMMARIES[name]


app = typer.Typer(
    name="wiresum",
    cls=Commands,
    help="Sums gradients inside the network, under unmodified PyTorch.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # Rich, for help alone, takes longer to import than anything else.
)


def print_version(is_wanted: bool) -> None:
    """Prints the version alone, and ends the command."""
    if is_wanted:
        from wiresum.cli.version import installed

        print(f"wiresum {installed('wiresum')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=print_version, is_eager=True)
    ] = False,
    install_completion: Annotated[
        bool,
        typer.Option(
            "--install-completion",
            help="Install completion for this shell: bash, zsh, fish",
            callback=completion.install,
        ),
    ] = False,
    show_completion: Annotated[
        bool, typer.Option("--show-completion", help="Print this shell's completion script", callback=completion.show)
    ] = False,
) -> None:
    """Sums gradients inside the network, under unmodified PyTorch."""


def main() -> None:
    """Runs the command line; errors become one line and an exit code."""
    stand_in()
    spare_letters()
    values.spare()
    completion.prepare()
    try:
        app()
    except NotWorthwhileError as answer:
        sys.exit(fail(str(answer), NOT_WORTHWHILE))
    except (PlanError, ScenarioError, ScheduleError, TopologyError, TraceError, WorkloadError) as refused:
        sys.exit(fail(screen(str(refused)), USAGE))
    except SupportError as missing:
        sys.exit(fail(str(missing), UNSUPPORTED))
    except WiresumError as failed:
        sys.exit(fail(str(failed), FAILURE))
    except ValueError as invalid:
        from pydantic import ValidationError

        from wiresum.document import describe

        if not isinstance(invalid, ValidationError):
            raise
        sys.exit(fail(screen(describe(invalid)), USAGE))
    except OSError as refused:  # of a disk that is full, or of a path in an option
        file = f"{refused.filename}: " if refused.filename else ""
        sys.exit(fail(f"{file}{refused.strerror or refused}; check the path and the disk", USAGE))
