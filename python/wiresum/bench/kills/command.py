"""`wiresum bench kills`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import command, show, suitable_engine
from wiresum.commandline import options
from wiresum.plan.choices import Engine


@dataclass(frozen=True)
class Options:
    """What to kill, and how often."""

    kills: Annotated[int, typer.Option("--kills", min=1, help="Number of servers to kill, one after the other")] = 100
    scale: Annotated[float, typer.Option("--scale", help="Factor on the rates of xagg")] = 0.01
    engine: Annotated[Engine, options.ENGINE] = suitable_engine()
    policy: options.PolicyOption = "pool"
    deep: Annotated[bool, typer.Option("--deep", help="Put S1 below S2, so that a server has a server below it")] = (
        False
    )
    down_s: Annotated[float, typer.Option("--down", min=0, help="Seconds until a killed server is started again")] = 0.5
    seed: Annotated[int, typer.Option("--seed", help="Seed that chooses which server is killed, and when")] = 1


@command("Running aggregators", "--kills 20 --engine udp", {"kills": "--kills 10"})
def kills(chosen: Options, as_json: options.JsonOption = False) -> None:
    """Kill aggregation servers (SIGKILL) at random moments of training on xagg, and check every step."""
    from wiresum.bench.kills import measure as benchmark
    from wiresum.commandline.console import progress_bar

    with progress_bar() as bar:
        task = bar.add_task("kills", total=chosen.kills)
        report = benchmark.measure(chosen, lambda done, _all: bar.update(task, completed=done))
    show(report, as_json)
