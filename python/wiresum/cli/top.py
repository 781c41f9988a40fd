"""`wiresum top`: what the daemons of this host do, live."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiresum.commandline.console import note, out, print_json
from wiresum.commandline.options import JsonOption
from wiresum.commandline.tables import figures

if TYPE_CHECKING:
    from rich.table import Table

    from wiresum.deploy.load import JobLoad

Status = dict[Path, dict[str, Any]]
HEADINGS = ("node", "engine", "job", "seats", "rate", "sums/s", "summed", "sent again", "asked/s", "dropped")
MEANING = (
    "seats: taken of planned, by child and stream · summed, sent again: shares of the contributions that came · "
    "asked: for what is late or lost"
)


def top(
    sockets: Annotated[
        list[Path] | None,
        typer.Argument(metavar="SOCKET", help="Control sockets of daemons [default: all on this host]"),
    ] = None,
    interval: Annotated[float, typer.Option("--interval", min=0.1, help="Seconds between two looks")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one table and end")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the jobs of running daemons live: seats, rates, sums, losses. Ctrl-C ends it.

    Without a terminal it prints one table, as with --once. Daemons of a testbed are found, too.

    Example: `wiresum top`
    """
    looks = _looks(sockets or None, interval)
    if as_json:
        print_json({"jobs": [asdict(load) for load in next(looks)]})
    elif once or not sys.stdout.isatty():
        out().print(table(next(looks)))
    else:
        _live(looks)


def found_sockets() -> list[Path]:
    """Control sockets of the daemons of this user: of services, and of testbeds that are up."""
    from wiresum.deploy import control
    from wiresum.testbed import records

    folders = [control.default_socket().parent, *records.root().glob("*/")]
    return sorted(path for folder in folders for path in folder.glob("*.sock") if path.is_socket())


def table(loads: list[JobLoad]) -> Table:
    """One row for each job at each node."""
    rows = figures(HEADINGS, ("engine",), box=None, caption=MEANING, caption_justify="left")
    for load in loads:
        rows.add_row(*_cells(load))
    return rows


def _cells(load: JobLoad) -> tuple[str, ...]:
    return (
        str(load.node),
        load.engine,
        str(load.job),
        f"{load.members} of {load.expected_members}",
        f"{load.rate_bps / 1e6:.1f} Mbit/s",
        f"{load.sums_per_s:.0f}",
        _share(load.summed_share),
        _share(load.again_share),
        f"{load.asked_per_s:.0f}",
        str(load.dropped),
    )


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _looks(sockets: list[Path] | None, interval: float) -> Iterator[list[JobLoad]]:
    """The load of all jobs, again and again."""
    from wiresum.deploy.load import loads

    before = _statuses(sockets)
    while True:
        time.sleep(interval)
        after = _statuses(sockets)
        yield [load for path, status in after.items() for load in loads(before.get(path, status), status)]
        before = after


def _statuses(sockets: list[Path] | None) -> Status:
    """Answers by socket. Of daemons that were found, not named, those that end meanwhile are left out.

    Raises:
        ControlError: a daemon that was named does not answer, or there is none.
    """
    from wiresum.deploy import control
    from wiresum.errors import ControlError

    answers = {}
    for path in sockets or found_sockets():
        try:
            answers[path] = control.ask(path, "status")
        except ControlError:
            if sockets:
                raise
    if not answers:
        folder = control.default_socket().parent
        raise ControlError(
            f"no daemon answers in {folder}, or in a testbed; start one with --control, or name its socket"
        )
    return answers


def _live(looks: Iterator[list[JobLoad]]) -> None:
    from contextlib import suppress

    from rich.live import Live

    with suppress(KeyboardInterrupt), Live(console=out(), auto_refresh=False, screen=True) as live:
        for loads in looks:
            live.update(table(loads), refresh=True)
    note("ended")
