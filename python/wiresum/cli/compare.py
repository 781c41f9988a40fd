"""`wiresum compare`: planners on one network and model, schedulers on the same jobs, or answers for one scenario."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiresum.cli.rows import CountedRows, compare_rows
from wiresum.cli.schedulers import AskedJobs, compare_schedulers
from wiresum.commandline import completion, options
from wiresum.commandline.console import note, out, print_json
from wiresum.commandline.groups import given, grouped, present, refuse
from wiresum.commandline.options import load_topology
from wiresum.commandline.progress import working
from wiresum.commandline.tables import comparison, print_wide
from wiresum.planners import COMPARED, ROW_PLANNERS
from wiresum.topology.generators import TOPOLOGIES

if TYPE_CHECKING:
    from wiresum.planners.comparison import Candidate

NARROWEST = 100
"""Columns of the table where standard output is no terminal, or a narrow one."""
UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1))
COLUMNS = ("planner", "on links", "busiest", "server", "in net", "memory", "time", "gap", "took")
"""Gradient bytes on all links, on the most loaded one, and into the parameter server; the part of them that is summed
before; most of a switch's memory; a round's predicted time; the proven gap; and the planner's own time."""


@grouped
def compare(
    division: options.ModelParts,
    search: options.SearchOptions,
    rows: CountedRows,
    asked: AskedJobs,
    scenario: Annotated[
        Path | None,
        typer.Argument(
            metavar="SCENARIO",
            help="Scenario file (TOML), or a folder of them, to ask flows, packets and a live run",
            autocompletion=completion.name((), ".toml"),
        ),
    ] = None,
    planners: Annotated[
        str | None,
        typer.Option(
            "--planners",
            "-p",
            help=f"Planners, comma-separated: {', '.join(COMPARED)}; or of rows: {', '.join(ROW_PLANNERS)}",
            autocompletion=completion.names([*COMPARED, *ROW_PLANNERS]),
        ),
    ] = None,
    schedulers: Annotated[
        str | None,
        typer.Option("--schedulers", help="Schedulers of jobs over optical circuits, comma-separated, as turns,fcfs"),
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology",
            "-t",
            help="Topology: a name, as fat-tree:k=8,seed=1, or a file",
            autocompletion=completion.name(TOPOLOGIES, ".json"),
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help="Gradient: a size, or a model's name [default: resnet50; beside rows nothing]"),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", "-n", min=1, help="Number of workers, chosen by --seed [default: all]")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="File for pictures of networks and loads: FILE.png becomes FILE-PLANNER.png"),
    ] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="FIELD=VALUE to change in the scenario; repeatable")
    ] = None,
    live: Annotated[bool, typer.Option("--live/--no-live", help="Run the scenario on a testbed too")] = True,
    engine: Annotated[
        options.EngineChoice, typer.Option("--engine", help="Engine of the aggregators in the live run")
    ] = "auto",
    as_json: options.JsonOption = False,
) -> None:
    """Compare planners or schedulers by cost and time; or simulations and a live run of one scenario.

    Example: `wiresum compare --planners ps,krgs,goat --topology leaf-spine --model alexnet --parts 16 --workers 35`

    Example: `wiresum compare --planners tiers,zebra --topology star:workers=8,servers=1 --trace criteo:scale=0.1`

    Example: `wiresum compare --schedulers turns,window,fcfs --topology optical:units=4 --jobs jobs.json`

    Example: `wiresum compare docs/examples/star.toml --set job.0.bytes=4000000`

    Example: `wiresum compare docs/examples/testbeds`
    """
    if scenario is not None:
        if planners is not None or topology is not None:
            problem = f"{scenario} is read as a scenario, which names its own planner and topology"
            remedy = f"leave out --planners and --topology, or, if it is a topology, write --topology {scenario}"
            raise typer.BadParameter(f"{problem}; {remedy}")
        from wiresum.cli.answers import compare_answers

        compare_answers(scenario, change or [], live=live, engine=engine, as_json=as_json)
        return
    if schedulers is not None:
        if topology is None:
            raise typer.BadParameter("give --topology, with the optical switch, and --jobs", param_hint="--schedulers")
        useless = [*given(division), *given(rows)]
        useless += present({"--planners": planners, "--model": model, "--workers": workers, "--plot": plot})
        refuse(useless, "schedulers of jobs do not heed it; leave it out")
        compare_schedulers(schedulers, topology, asked, search.time_limit, seed=search.seed, as_json=as_json)
        return
    refuse(given(asked), "only --schedulers ask about jobs over circuits; leave it out")
    if planners is None or topology is None:
        raise typer.BadParameter("give a scenario file; or --topology, and --planners or --schedulers")
    names = planners.split(",")
    if set(names) & set(ROW_PLANNERS):
        useless = [*given(search), *given(division)[: 0 if model else None]]
        useless += present({"--workers": workers, "--plot": plot})
        refuse(useless, "planners of rows do not heed it; leave it out")
        dense_bytes = sum(part.bytes for part in division.of(model)) if model else 0
        compare_rows(names, load_topology(topology), rows, dense_bytes, as_json=as_json)
        return
    refuse(given(rows), f"only {' and '.join(ROW_PLANNERS)} place rows; leave it out")
    from wiresum.plan.job import Job
    from wiresum.planners.comparison import compare as ask
    from wiresum.planners.comparison import sample_workers

    network = load_topology(topology)
    chosen = None if workers is None else sample_workers(network, workers, search.seed)
    sub_models = division.of(model or "resnet50")
    job = Job(workers=chosen, sub_models=sub_models, gradient_bytes=sum(part.bytes for part in sub_models))
    made: list[Candidate] = []
    try:
        with working("planners") as task:
            for candidate in ask(network, job, search.choices(), names):
                made.append(candidate)
                task.reach(len(made), len(names))
                if plot and candidate.cost:
                    _plot(candidate, plot)
    finally:  # Ctrl-C leaves the planners that have answered.
        if made:
            print_json([candidate.to_json() for candidate in made]) if as_json else _show(made)


def _plot(candidate: Candidate, path: Path) -> None:
    from wiresum.plan.assignment.plot import draw

    assert candidate.cost is not None
    file = path.with_stem(f"{path.stem}-{candidate.planner}")
    title = f"{candidate.planner}: {candidate.cost.total_bytes / 1e9:,.2f} GB on links"
    draw(candidate.cost.traffic, title, file)
    note(f"{file}: link loads and sums")


def _show(made: list[Candidate]) -> None:
    table = comparison(COLUMNS, ("planner",))
    for candidate in made:
        if candidate.cost:
            table.add_row(*_cells(candidate))
    print_wide(table, NARROWEST)
    if any(candidate.solution and candidate.solution.gap is not None for candidate in made):
        note("gap: proven for what each planner minimizes, such as the load of the busiest link, and not for the time")
    for candidate in made:
        if candidate.refusal:
            out().print(f"{candidate.planner}: {candidate.refusal}", markup=False)


def _cells(candidate: Candidate) -> list[str]:
    cost, solution = candidate.cost, candidate.solution
    assert cost is not None
    share = "–" if cost.memory_share is None else f"{100 * cost.memory_share:.0f} %"
    # Without a fluid, what the busiest link needs is a bound.
    seconds = f"≥ {cost.bound_seconds:.4g} s" if cost.predicted_seconds is None else f"{cost.predicted_seconds:.4g} s"
    gap = "–" if solution is None or solution.gap is None else f"{100 * solution.gap:.2f} %"
    return [
        candidate.planner,
        _size(cost.total_bytes),
        _size(cost.max_link_bytes),
        _size(cost.server_ingress_bytes),
        f"{100 * cost.in_network_share:.0f} %",
        share,
        seconds,
        gap,
        f"{candidate.seconds:.1f} s",
    ]


def _size(amount: float) -> str:
    unit, factor = next((unit, factor) for unit, factor in UNITS if amount >= factor or factor == 1)
    return f"{amount / factor:.4g} {unit}"
