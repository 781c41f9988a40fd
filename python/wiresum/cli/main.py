"""Table of contents of the command `wiresum`.

Exit codes: 0 success; 1 failure; 2 wrong usage; 3 a privilege or support is missing on this machine;
4 the planner advises against summing in the network;
`testbed run` ends with the exit code of the first worker that fails.
"""

import sys
from typing import Annotated

import typer

from wiresum.cli import (
    adjust,
    bench,
    circuits,
    compare,
    demo,
    doctor,
    explain,
    keys,
    node,
    plan,
    predict,
    reproduce,
    schedule,
    schema,
    simulate,
    sparse,
    testbed,
    topology,
    version,
    workload,
)
from wiresum.cli.version import print_version
from wiresum.commandline.console import fail, screen
from wiresum.commandline.contents import Contents, Quick
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

FAILURE = 1
USAGE = 2
UNSUPPORTED = 3
NOT_WORTHWHILE = 4

app = typer.Typer(
    name="wiresum",
    cls=Contents,
    help="Sums gradients inside the network, under unmodified PyTorch.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # Rich, for help alone, takes longer to import than anything else.
)
app.add_typer(testbed.app, name="testbed")
app.add_typer(topology.app, name="topology")
app.add_typer(circuits.app, name="circuits")
app.add_typer(workload.app, name="workload")
app.add_typer(bench.app, name="bench")
app.add_typer(node.app, name="node")
app.add_typer(sparse.app, name="sparse")
app.command("demo", epilog="Example: `wiresum demo --workers 4 --rate 250mbit`")(demo.demo)
app.command("plan")(plan.plan)
app.command("keys")(keys.keys)
app.command("compare")(compare.compare)
app.command("schedule", epilog=schedule.EXAMPLE)(schedule.schedule)
app.command("explain")(explain.explain)
app.command("adjust")(adjust.adjust)
app.command("predict")(predict.predict)
app.command("reproduce")(reproduce.reproduce)
app.command("simulate")(simulate.simulate)
app.command("schema")(schema.schema)
app.command("doctor")(doctor.doctor)
app.command("version", cls=Quick)(version.version)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Sums gradients inside the network, under unmodified PyTorch."""


def main() -> None:
    """Runs the command line; errors become one line and an exit code."""
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
