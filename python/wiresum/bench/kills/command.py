"""`wiresum bench kills`."""

from typing import Annotated

import typer

from wiresum.bench.command import command, show
from wiresum.commandline import options
from wiresum.commandline.options import choose_engine


@command("Running aggregators", "--kills 20 --engine udp", {"kills": "--kills 10"})
def kills(
    count: Annotated[int, typer.Option("--kills", min=1, help="Number of servers to kill, one after the other")] = 100,
    scale: Annotated[float, typer.Option("--scale", help="Factor on the rates of xagg")] = 0.01,
    down: Annotated[float, typer.Option("--down", min=0, help="Seconds until a killed server is started again")] = 0.5,
    seed: Annotated[int, typer.Option("--seed", help="Seed that chooses which server is killed, and when")] = 1,
    policy: options.PolicyOption = "pool",
    engine: options.EngineOption = "auto",
    deep: Annotated[
        bool, typer.Option("--deep", help="Put S1 below S2, so that a server has a server below it")
    ] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Kill aggregation servers (SIGKILL) at random moments of training on xagg, and check every step."""
    from wiresum.bench.kills import measure as benchmark
    from wiresum.commandline.console import progress_bar

    chosen = benchmark.Options(
        kills=count,
        scale=scale,
        engine=choose_engine(engine, loopback=False),
        policy=policy,
        deep=deep,
        down_s=down,
        seed=seed,
    )
    with progress_bar() as bar:
        task = bar.add_task("kills", total=count)
        report = benchmark.measure(chosen, lambda done, _all: bar.update(task, completed=done))
    show(report, as_json)
