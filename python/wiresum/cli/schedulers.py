"""`wiresum compare --schedulers`: schedulers of jobs over optical circuits side by side; and what all are asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiresum.commandline.console import out, print_json
from wiresum.commandline.options import load_topology
from wiresum.commandline.progress import working
from wiresum.commandline.quantities import parse_seconds
from wiresum.commandline.tables import comparison, print_wide
from wiresum.errors import ScheduleError

if TYPE_CHECKING:
    from wiresum.schedule.comparison import Entrant

OBJECTIVES = ("completion", "mean", "weighted", "fair")
NARROWEST = 100
"""Columns of a comparison where standard output is no terminal, or a narrow one."""
COLUMNS = ("scheduler", "complete", "over bound", "mean", "p99", "set-ups", "changes", "summed", "light", "took")
"""The end of the last job, and how far it is above the best bound; from a job's arrival to its end, in the mean and at
the 99th percentile; circuits that are set up, and moments at which circuits change; the part of the bytes that switches
sum; the part of the time with light in which circuits are used; and the scheduler's own time, its bound included."""


@dataclass(frozen=True)
class AskedJobs:
    """Jobs over optical circuits, as schedulers are asked about them."""

    jobs: Annotated[
        Path | None, typer.Option("--jobs", help="Workload file, for a topology with an optical switch")
    ] = None
    slot: Annotated[
        str, typer.Option("--slot", help="Time after which circuits may change; an instance has its own")
    ] = "1s"
    sums: Annotated[bool, typer.Option("--sums/--no-sums", help="Let switches sum")] = True
    trees: Annotated[
        bool, typer.Option("--trees/--no-trees", help="Let switches of several units sum a job together")
    ] = False
    objective: Annotated[str, typer.Option("--objective", help=f"Objective of `turns`: {', '.join(OBJECTIVES)}")] = (
        "completion"
    )

    def instance(self, network: str, **rules: Any) -> dict[str, Any]:
        """An instance file as it is; a topology and a workload as an instance.

        Args:
            network: name of a topology, or a file with one or with an instance.
            rules: of `wiresum.workload.instance.instance`.

        Raises:
            ScheduleError: jobs are missing or there twice.
            typer.BadParameter: there is no such objective.
        """
        from wiresum.workload.instance import FORMAT, instance
        from wiresum.workload.model import Workload

        if self.objective not in OBJECTIVES:
            raise typer.BadParameter(
                f"{self.objective} is not one of {', '.join(OBJECTIVES)}", param_hint="--objective"
            )
        document = _document(network)
        if document is not None and document.get("format") == FORMAT:
            if self.jobs is not None:
                raise ScheduleError(f"{network} is an instance, which has its jobs; leave `--jobs` out")
            return document
        there = load_topology(network)
        if self.jobs is None:
            raise ScheduleError(f"{network} is a topology, which has no jobs; give `--jobs FILE`")
        return instance(there, Workload.read(self.jobs), parse_seconds(self.slot), trees=self.trees, **rules)


def compare_schedulers(
    schedulers: str, network: str, asked: AskedJobs, time_limit_s: float, *, seed: int, as_json: bool
) -> None:
    """Asks schedulers about the same jobs, and shows their answers side by side.

    Args:
        schedulers: names, comma-separated.
        network: as `AskedJobs.instance` takes it.
        asked: the jobs, and what all are told.
        time_limit_s: of `exact`.
        seed: of those that search; 0 for their own.
        as_json: whether to print a list of objects, not a table.
    """
    from wiresum.schedule.comparison import compare

    names = schedulers.split(",")
    instance = asked.instance(network)
    options: dict[str, Any] = {"sums": asked.sums, "objective": asked.objective}
    if seed:
        options["seed"] = seed
    made: list[Entrant] = []
    try:
        with working("schedulers") as task:
            for entrant in compare(instance, names, time_limit_s, **options):
                made.append(entrant)
                task.reach(len(made), len(names))
    finally:  # Ctrl-C leaves the schedulers that have answered.
        if made:
            _show(made, as_json=as_json)


def _show(made: list[Entrant], *, as_json: bool) -> None:
    from wiresum.schedule.comparison import bound

    bounds = [bound(made, slots=one.has_slots) for one in made]
    if as_json:
        return print_json([one.to_json(bound_s) for one, bound_s in zip(made, bounds, strict=True)])
    table = comparison(COLUMNS, ("scheduler",))
    for one, bound_s in zip(made, bounds, strict=True):
        if one.timetable is not None:
            table.add_row(*_cells(one, bound_s))
    print_wide(table, NARROWEST)
    for one in made:
        if one.refusal:
            out().print(f"{one.scheduler}: {one.refusal}", markup=False)
    return None


def _cells(one: Entrant, bound_s: float | None) -> list[str]:
    assert one.timetable is not None
    cost, gap = one.timetable.cost, one.gap(bound_s)
    return [
        one.scheduler,
        f"{cost.completion_s:.4g} s",
        "–" if gap is None else f"{100 * gap:.1f} %",
        f"{cost.sojourn_s.mean:.4g} s",
        f"{cost.sojourn_s.p99:.4g} s",
        str(cost.setups),
        str(cost.reconfigurations),
        f"{100 * cost.share_summed:.0f} %",
        f"{100 * cost.light_used:.0f} %",
        f"{one.seconds:.2f} s",
    ]


def _document(network: str) -> dict[str, Any] | None:
    """A JSON object, where the name is that of a file with one."""
    from wiresum.document import is_there, read_json

    if not is_there(network):
        return None
    document = read_json(network, "network", ScheduleError)
    return document if isinstance(document, dict) else None
