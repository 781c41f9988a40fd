"""`wiresum workload`: makes and imports files of jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wiresum.commandline.console import note, print_json
from wiresum.commandline.contents import Section
from wiresum.commandline.options import JsonOption, load_topology
from wiresum.commandline.quantities import parse_fraction, parse_numbers, parse_seconds, parse_size
from wiresum.errors import WorkloadError

if TYPE_CHECKING:
    from wiresum.workload.model import Workload

app = Section("Make a file of jobs, or import one from a trace.")

TopologyOption = Annotated[
    str,
    typer.Option("--topology", "-t", help="Topology whose units the jobs run in: a name or a file"),
]
BytesOption = Annotated[
    str, typer.Option("--bytes", help="Gradient of a worker: a size, or the least and the most, as 102MB,528MB")
]
SpreadOption = Annotated[
    str, typer.Option("--spread", help="Share of the jobs that are put in two units though one has room, as 30%")
]
ByHostOption = Annotated[bool, typer.Option("--by-host", help="Name hosts as locations of workers, instead of units")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of arrivals, sizes and locations")]
WorkloadArgument = Annotated[Path, typer.Argument(metavar="WORKLOAD", help="Workload file")]
SlotOption = Annotated[str, typer.Option("--slot", help="Time after which circuits may change")]
SchedulerOption = Annotated[str, typer.Option("--scheduler", "-s", help="Scheduler of the jobs, before and after")]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Trace to read")]
PAPERS_BYTES = "102MB,528MB"


@app.command(
    epilog="Example: `wiresum workload poisson --jobs 60 --per-second 1 --workers 2,4 --bytes 102MB,528MB > jobs.json`"
)
def poisson(
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Number of jobs")] = 60,
    per_second: Annotated[
        float, typer.Option("--per-second", help="Mean number of jobs that arrive in a second")
    ] = 1.0,
    workers: Annotated[
        str, typer.Option("--workers", "-n", help="Numbers of workers, one of which is drawn for each job")
    ] = "2,4,8,16",
    size: BytesOption = PAPERS_BYTES,
    iterations: Annotated[int, typer.Option("--iterations", min=1, help="Number of gradients that each job sends")] = 1,
    compute: Annotated[str, typer.Option("--compute", help="Time of computing in each iteration, as 50ms")] = "0s",
    topology: TopologyOption = "optical",
    spread: SpreadOption = "0",
    by_host: ByHostOption = False,
    seed: SeedOption = 0,
) -> None:
    """Print jobs that come at random, with workers in as few units as possible.

    The defaults are the sizes of P4INC-AOI's experiments (§VII).
    """
    from wiresum.workload.poisson import poisson as make

    show(
        make(
            load_topology(topology),
            jobs,
            per_second,
            [round(number) for number in parse_numbers(workers)],
            _range(size),
            iterations=iterations,
            compute_s=parse_seconds(compute),
            spread=_share(spread),
            by_host=by_host,
            seed=seed,
        )
    )


@app.command(epilog="Example: `wiresum workload coflows trace.txt --topology optical:units=64 > coflows.json`")
def coflows(file: FileArgument, topology: TopologyOption = "optical", batch: bool = typer.Option(
    False, "--batch", help="Let all jobs arrive at the start"
)) -> None:  # fmt: skip
    """Import a trace of the coflow benchmark; its racks are folded on the units of the topology."""
    from wiresum.document import naming, read_text
    from wiresum.workload.coflows import coflows as read
    from wiresum.workload.sites import units_of

    text = read_text(file, "trace", WorkloadError)
    units = [unit.name for unit in units_of(load_topology(topology))]
    with naming(file, WorkloadError):
        made = read(text, units, _name(file))
    show(made.as_batch() if batch else made)


@app.command(epilog="Example: `wiresum workload table jobs.csv --topology optical.json > jobs.json`")
def table(
    file: FileArgument,
    topology: TopologyOption = "optical",
    size: BytesOption = PAPERS_BYTES,
    spread: SpreadOption = "0",
    by_host: ByHostOption = False,
    seed: SeedOption = 0,
) -> None:
    """Import a table of jobs with a header, comma-separated, as clusters publish them.

    It needs columns for arrivals and GPUs, under the names that Philly's, Helios' and Lingjun's tables have. Sizes are
    drawn where it has no column `bytes`. A part of a GPU counts as a worker.
    """
    from wiresum.document import naming, read_text
    from wiresum.workload.table import table as read

    text, there, name = read_text(file, "table", WorkloadError), load_topology(topology), _name(file)
    with naming(file, WorkloadError):
        made = read(text, there, _range(size), name=name, spread=_share(spread), by_host=by_host, seed=seed, tell=note)
    show(made)


@app.command(epilog="Example: `wiresum workload place jobs.json --topology optical.json --all > placed.json`")
def place(
    file: WorkloadArgument,
    topology: TopologyOption = "optical",
    slot: SlotOption = "1s",
    everything: Annotated[
        bool, typer.Option("--all", help="Choose places of workers, too, not of servers alone")
    ] = False,
    scheduler: SchedulerOption = "turns",
) -> None:
    """Choose where jobs have their servers, so that circuits have less to carry, and print the jobs.

    Places change only where the scheduler completes the jobs earlier with the new ones, or with fewer set-ups.
    """
    from wiresum.workload.placement import placed

    what: Literal["servers", "all"] = "all" if everything else "servers"
    _changed(file, lambda jobs: placed(load_topology(topology), jobs, parse_seconds(slot), what, scheduler))


@app.command(epilog="Example: `wiresum workload relay jobs.json --topology optical.json --slot 1s > relayed.json`")
def relay(
    file: WorkloadArgument,
    topology: TopologyOption = "optical",
    slot: SlotOption = "1s",
    scheduler: SchedulerOption = "turns",
) -> None:
    """Let a third unit's switch pass on what is too little for a circuit of its own, and print the jobs.

    Jobs have relays only where the scheduler completes them earlier so, or with fewer set-ups.
    """
    from wiresum.workload.relays import relayed

    _changed(file, lambda jobs: relayed(load_topology(topology), jobs, parse_seconds(slot), scheduler))


def _changed(file: Path, change: Callable[[Workload], Workload]) -> None:
    """Prints the jobs of a file as they are after a change, and says how many are not as they were."""
    from wiresum.workload.model import Workload

    before = Workload.read(file)
    after = change(before)
    count = sum(one != other for one, other in zip(before.jobs, after.jobs, strict=True))
    note(f"{count} of {len(after.jobs)} jobs changed")
    show(after)


@app.command("show", epilog="Example: `wiresum workload show jobs.json`")
def show_(file: WorkloadArgument, as_json: JsonOption = False) -> None:
    """Say what is in a file of jobs."""
    from wiresum.workload.model import Workload
    from wiresum.workload.summary import describe, summarize

    workload = Workload.read(file)
    if as_json:
        print_json(summarize(workload))
    else:
        print(describe(workload))


def show(workload: Workload) -> None:
    """On standard output."""
    sys.stdout.write(workload.to_json())


def _range(text: str) -> tuple[int, int]:
    sizes = [parse_size(one) for one in text.split(",")]
    if len(sizes) > 2:  # noqa: PLR2004 - the least and the most
        raise typer.BadParameter(f"{text} has {len(sizes)} sizes; give one, or the least and the most")
    return sizes[0], sizes[-1]


def _share(text: str) -> float:
    return 1.0 if text in {"1", "100%"} else parse_fraction(text)


def _name(file: Path) -> str:
    return "".join(letter for letter in file.stem if letter.isalnum() or letter in "-_.")[:32].lstrip("-_.") or "trace"
