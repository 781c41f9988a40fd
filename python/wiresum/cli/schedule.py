"""`wiresum schedule`: jobs over optical circuits become a timetable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiresum.cli.schedulers import AskedJobs
from wiresum.commandline import options
from wiresum.commandline.console import note, out, print_json
from wiresum.commandline.groups import grouped
from wiresum.commandline.progress import working
from wiresum.commandline.quantities import parse_rate, parse_seconds

if TYPE_CHECKING:
    from wiresum.schedule import Timetable


@grouped
def schedule(
    network: Annotated[
        str,
        typer.Argument(
            metavar="INSTANCE_OR_TOPOLOGY", help="Instance file, or a topology with an optical switch: a name or a file"
        ),
    ],
    asked: AskedJobs,
    scheduler: Annotated[
        str, typer.Option("--scheduler", "-s", help="Scheduler of the jobs; `--scheduler list` prints all")
    ] = "turns",
    slots: Annotated[
        bool,
        typer.Option("--slots/--no-slots", help="Change circuits with slots only, as all do but `events`"),
    ] = True,
    online: Annotated[
        bool,
        typer.Option("--online", help="Let `turns` know jobs from their arrival on only"),
    ] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="Count rates as P4INC-AOI does; an instance says so itself")
    ] = False,
    blocking: Annotated[
        bool, typer.Option("--blocking", help="Let nobody overtake a job that cannot begin, in `fcfs`")
    ] = False,
    keep_circuits: Annotated[
        bool, typer.Option("--keep-circuits/--tear-down", help="Keep circuits of jobs that are complete, in `fcfs`")
    ] = True,
    step: Annotated[str, typer.Option("--step", help="Step of a worker's rate, in `window`")] = "10gbit",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the search")] = 1,
    by: Annotated[
        str | None, typer.Option("--by", help="Fail unless all jobs are complete by then, and say what is in the way")
    ] = None,
    time_limit: Annotated[float, typer.Option("--time-limit", help="Seconds that `exact` may take")] = 60.0,
    explain: Annotated[bool, typer.Option("--explain", help="Say in words who sends when, and what is proven")] = False,
    plot: options.PlotOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File for the timetable")] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Schedule jobs over optical circuits and places at switches, with a proven bound.

    Example: `wiresum schedule optical:units=4 --jobs jobs.json --slot 1s --explain --plot gantt.png`
    """
    from wiresum.schedule import SCHEDULERS, WITHOUT_SLOTS
    from wiresum.schedule import schedule as ask

    if scheduler == "list":
        for name, summary in SCHEDULERS.items():
            out().print(f"{name:14} {summary}")
        return
    step_bps = parse_rate(step)
    if step_bps is None:
        raise typer.BadParameter("a step needs a rate, as 10gbit", param_hint="--step")
    instance = asked.instance(network, paper=paper, slots=slots and scheduler != WITHOUT_SLOTS)
    with working(f"scheduler {scheduler}"):
        timetable = ask(
            instance,
            scheduler,
            time_limit,
            sums=asked.sums,
            objective=asked.objective,
            online=online,
            blocking=blocking,
            keep_circuits=keep_circuits,
            step_bps=step_bps,
            seed=seed,
        )
    if by is not None:
        from wiresum.schedule.conflict import require

        require(timetable, instance, parse_seconds(by), asked.sums)
    _show(timetable, instance, explain, as_json)
    if output:
        timetable.write(output)
    if plot:
        from wiresum.schedule.gantt import draw

        draw(timetable, instance, plot)
        note(f"drawn to {plot}")


def _show(timetable: Timetable, instance: dict[str, Any], explain: bool, as_json: bool) -> None:
    from wiresum.schedule.words import SUMMARY_LINES, words

    if as_json:
        return print_json(timetable.model_dump(mode="json", exclude_none=True))
    for number, line in enumerate(words(timetable, instance)):
        if explain or number < SUMMARY_LINES:
            out().print(line)
    return None
