"""`wiresum bench upgrade`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, command, measuring, show, suitable_engine
from wiresum.commandline import options
from wiresum.plan.choices import Engine


@dataclass(frozen=True)
class Options:
    """What to upgrade, and how often."""

    upgrades: Annotated[
        int, typer.Option("--upgrades", min=1, help="Number of daemons that are replaced, one after the other")
    ] = 20
    seed: Annotated[int, typer.Option("--seed", help="Seed that chooses which daemon is replaced, and when")] = 1
    policy: options.PolicyOption = "pool"
    engine: Annotated[Engine, options.ENGINE] = suitable_engine()


@command("Running aggregators", "--upgrades 10 --engine udp", quick="--upgrades 2")
def upgrade(chosen: Options, *, output: Output) -> None:
    """Have new daemons take over from running ones at random moments of training on xagg, and check every step."""
    from wiresum.bench.upgrade import measure as benchmark

    with measuring(f"{chosen.upgrades} upgrades", output) as status:
        report = benchmark.measure(chosen, status.reach)
    show(report, output)
