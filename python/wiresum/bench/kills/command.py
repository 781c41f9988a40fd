"""`wiresum bench kills`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, command, measuring, show, suitable_engine
from wiresum.commandline import options
from wiresum.plan.choices import Engine

KILLS = 100
ROOT_KILLS = 10
"""Kills unless the command says how many; each of a root, or a rank, takes seconds, in which ranks go over to Gloo and
back."""


@dataclass(frozen=True)
class Options:
    """What to kill, and how often."""

    kills: Annotated[
        int | None,
        typer.Option(
            "--kills", min=1, help="Number of kills, one after the other; 100 unless given, 10 with --root or --ranks"
        ),
    ] = None
    scale: Annotated[float, typer.Option("--scale", help="Factor on the rates of xagg")] = 0.01
    engine: Annotated[Engine, options.ENGINE] = suitable_engine()
    policy: options.PolicyOption = "pool"
    deep: Annotated[bool, typer.Option("--deep", help="Put S1 below S2, so that a server has a server below it")] = (
        False
    )
    down_s: Annotated[float, typer.Option("--down", min=0, help="Seconds until a killed server is started again")] = 0.5
    seed: Annotated[int, typer.Option("--seed", help="Seed that chooses which server is killed, and when")] = 1
    root: Annotated[
        bool, typer.Option("--root", help="Kill a star's only aggregator, without which ranks go over to Gloo")
    ] = False

    tables: Annotated[
        bool, typer.Option("--tables", help="Kill servers of tables while workers push and pull rows")
    ] = False

    ranks: Annotated[bool, typer.Option("--ranks", help="Kill ranks of a training that goes on without them")] = False

    @property
    def count(self) -> int:
        """Kills in all."""
        return self.kills or (ROOT_KILLS if self.root or self.ranks else KILLS)


@command("Running aggregators", "--kills 20 --engine udp", {"kills": "--kills 10"}, quick="--kills 2 --scale 0.001")
def kills(chosen: Options, *, output: Output) -> None:
    """Kill aggregation servers (SIGKILL) at random moments of training on xagg, and check every step."""
    from wiresum.bench.kills import measure as of_inner_servers
    from wiresum.bench.kills import ranks as of_ranks
    from wiresum.bench.kills import root as of_roots
    from wiresum.bench.kills import tables as of_tables

    whom = [(chosen.root, of_roots), (chosen.tables, of_tables), (chosen.ranks, of_ranks)]
    named = [benchmark for is_named, benchmark in whom if is_named]
    if len(named) > 1:
        raise typer.BadParameter("choose one of --root, --tables and --ranks")
    benchmark = named[0] if named else of_inner_servers
    with measuring(f"{chosen.count} kills", output) as status:
        report = benchmark.measure(chosen, status.reach)
    show(report, output)
