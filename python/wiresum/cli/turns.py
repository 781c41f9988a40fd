"""Jobs in turns: `wiresum testbed run --jobs` and `wiresum circuits run`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiresum.commandline.console import note, print_json
from wiresum.commandline.quantities import parse_seconds
from wiresum.errors import ScheduleError

if TYPE_CHECKING:
    from wiresum.plan.choices import SwitchEngine
    from wiresum.plan.schedule import Schedule
    from wiresum.schedule import Timetable
    from wiresum.topology.model import Topology
    from wiresum.turns.online import Online
    from wiresum.turns.report import Comparison
    from wiresum.turns.stage import Seen
    from wiresum.workload.model import Workload


@dataclass(frozen=True)
class TurnsOptions:
    """Options of jobs that share optical circuits."""

    jobs: Annotated[
        Path | None,
        typer.Option("--jobs", help="Workload file: the command runs at every rank of every job, in turns"),
    ] = None
    scheduler: Annotated[
        str, typer.Option("--scheduler", help="Schedulers of --jobs, run one after the other, as turns,window,fcfs")
    ] = "turns"
    online: Annotated[
        bool,
        typer.Option("--online", help="Ask schedulers of --jobs at each slot, with what is known then"),
    ] = False
    slot: Annotated[str, typer.Option("--slot", help="Time after which turns of --jobs may change circuits")] = "1s"
    trees: Annotated[
        bool, typer.Option("--trees/--no-trees", help="Let switches of several units sum one of --jobs together")
    ] = False
    driver: Annotated[
        str,
        typer.Option(
            "--driver", help="Protocol by which turns order optical switches; several, as polatis-rest,sonic-tcp"
        ),
    ] = "emulated"
    plot: Annotated[
        Path | None, typer.Option("--plot", help="File for a picture of turns, promised and seen, as .png or .svg")
    ] = None


@dataclass(frozen=True)
class Run:
    """What is run.

    Attributes:
        topology: with an optical switch.
        command: of every rank.
        turns: the options.
        name: of the testbed.
        mtu: of every interface.
        engine: what runs the switches.
    """

    topology: Topology
    command: Sequence[str]
    turns: TurnsOptions
    name: str | None
    mtu: int
    engine: SwitchEngine


def run_in_turns(run: Run, *, as_json: bool) -> None:
    """Runs a workload's jobs by each protocol and scheduler, and says what was promised and what was seen."""
    from wiresum.turns.report import table, words
    from wiresum.workload.model import Workload

    turns = run.turns
    assert turns.jobs is not None, "it is why this was called"
    workload = Workload.read(turns.jobs)
    asked = [(name, _asked(run, workload, name)) for name in _listed(turns.scheduler)]
    timetables = [(_timetable(instance, name, online=turns.online), instance) for name, instance in asked]
    drivers = _listed(turns.driver)
    _require_protocols(drivers)
    runs: list[tuple[Comparison, Seen]] = []
    code = 0
    for driver, (timetable, instance) in product(drivers, timetables):
        comparison, seen, ended = _run_one(run, workload, timetable, instance, driver, as_json=as_json)
        runs.append((comparison, seen))
        code = code or ended
        for line in words(comparison):
            note(line)
    for line in table([comparison for comparison, _ in runs]):
        note(line)
    if as_json:
        print_json([comparison.as_json() for comparison, _ in runs])
    if turns.plot:
        from wiresum.turns.gantt import draw

        draw(runs, turns.plot)
        note(f"drawn to {turns.plot}")
    raise typer.Exit(code)


def _listed(names: str) -> list[str]:
    return [name.strip() for name in names.split(",")]


def _require_protocols(drivers: Sequence[str]) -> None:
    """Refuses a protocol before anything is made.

    Raises:
        typer.BadParameter: there is none of that name.
    """
    from wiresum.circuits.emulator.server import SERVERS

    strange = next((driver for driver in drivers if driver not in SERVERS), None)
    if strange is not None:
        raise typer.BadParameter(f"there is no protocol {strange}; choose {', '.join(SERVERS)}", param_hint="--driver")


def _asked(run: Run, workload: Workload, scheduler: str) -> dict[str, Any]:
    """The instance that a scheduler is asked about."""
    from wiresum.schedule import WITHOUT_SLOTS
    from wiresum.turns.plans import carried
    from wiresum.workload.instance import instance

    slot_s, slots = parse_seconds(run.turns.slot), scheduler != WITHOUT_SLOTS
    return carried(instance(run.topology, workload, slot_s, slots=slots, trees=run.turns.trees), workload)


def _timetable(asked: dict[str, Any], scheduler: str, *, online: bool) -> Timetable:
    from wiresum.schedule import schedule
    from wiresum.turns.plans import step_of

    return schedule(asked, scheduler, **step_of(asked), **({"online": True} if online else {}))


def _run_one(
    run: Run, workload: Workload, timetable: Timetable, asked: dict[str, Any], driver: str, *, as_json: bool
) -> tuple[Comparison, Seen, int]:
    from wiresum.turns.live import TurnsBed, run_jobs
    from wiresum.turns.online import Online
    from wiresum.turns.plans import as_schedule
    from wiresum.turns.report import Promise, compare

    work: Schedule | Online
    if run.turns.online:
        work = Online.of(run.topology, workload, asked, timetable.scheduler, run.engine)
    else:
        work = as_schedule(timetable, run.topology, workload, run.engine)
    names = {number: job.name for number, job in enumerate(workload.jobs, 1)}
    sink = sys.stderr if as_json else sys.stdout

    def show(job: int, rank: int, is_error: bool, line: str) -> None:
        print(f"[{names[job]} {rank}] {line}", file=sys.stderr if is_error else sink, flush=True)

    with TurnsBed(run.topology, work, driver, run.name, run.mtu) as bed:
        live = run_jobs(bed, workload, run.command, show, note)
    promise = Promise(run.topology, workload, timetable, live.schedule, driver)
    return compare(promise, live.seen, live.traffic), live.seen, live.exit_code


def require_no_jobs(turns: TurnsOptions) -> None:
    """Refuses options that only `--jobs` heeds.

    Raises:
        ScheduleError: one is given.
    """
    from wiresum.commandline.groups import given

    found = given(turns)
    if found:
        raise ScheduleError(f"{found[0]} is about turns of jobs; give --jobs FILE too, or leave it out")
