"""`wiresum bench elastic`."""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from wiresum.bench.command import Output, command, measuring, show, suitable_engine
from wiresum.commandline import options
from wiresum.plan.choices import Engine

Way = Literal["reconfigure", "torchft", "torchft-gloo"]
"""How members meet anew: by c10d's `reconfigure`, or under torchft's manager, in the network or with its Gloo group."""


How = Literal["kill", "cut"]
"""How a worker is lost: by SIGKILL, after which its kernel says so to everybody, or by a link that is down."""


@dataclass(frozen=True)
class Options:
    """Whom to kill, how often, and how the others meet."""

    by: Annotated[
        Way, typer.Option("--by", help="Way in which members meet anew; torchft-gloo has the group that torchft brings")
    ] = "reconfigure"
    how: Annotated[
        How, typer.Option("--how", help="kill: SIGKILL; cut: its link goes down, as if its host had lost its power")
    ] = "kill"
    kills: Annotated[int, typer.Option("--kills", min=1, help="Number of kills, one after the other")] = 20
    workers: Annotated[int, typer.Option("--workers", min=3, help="Number of workers")] = 6
    engine: Annotated[Engine, options.ENGINE] = suitable_engine()
    down_s: Annotated[float, typer.Option("--down", min=0, help="Seconds until a killed worker is started again")] = 0.0
    seed: Annotated[int, typer.Option("--seed", help="Seed that chooses which worker is killed, and when")] = 1


@command(
    "Running aggregators",
    "--by torchft --kills 10",
    {
        "elastic": "",
        "elastic-torchft": "--by torchft",
        "elastic-cut": "--by torchft --how cut",
        "elastic-cut-gloo": "--by torchft-gloo --how cut --kills 3",
    },
    quick="--kills 2 --workers 3",
)
def elastic(chosen: Options, *, output: Output) -> None:
    """Kill workers (SIGKILL) of a training that goes on without them and takes them back, and check every step."""
    from wiresum.bench.elastic.measure import measure

    if chosen.how == "cut" and chosen.by == "reconfigure":
        raise typer.BadParameter("--how cut needs --by torchft: its lighthouse knows who is silent, and c10d has none")
    with measuring(f"{chosen.kills} kills", output) as status:
        report = measure(chosen, status.reach)
    show(report, output)
