"""Aggregators in operation: deaths, floods, neighbours, new versions."""

from functools import partial
from typing import Annotated

import typer

from wiresum.cli.bench.shared import ENGINES, RunsOption, one_of, show
from wiresum.commandline import options
from wiresum.commandline.console import err, note
from wiresum.commandline.options import choose_engine
from wiresum.commandline.quantities import parse_numbers, parse_rate

app = typer.Typer()
command = partial(app.command, rich_help_panel="Running aggregators")


@command(epilog="Example: `wiresum bench kills --kills 20 --engine udp`")
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


@command(epilog="Example: `wiresum bench isolation --engines xdp --rate 500mbit`")
def isolation(
    engines: Annotated[str, typer.Option("--engines", help="Engines to compare, comma-separated: xdp,udp")] = "xdp,udp",
    rate: Annotated[str, typer.Option("--rate", help="Rate of each link: 500mbit, none")] = "500mbit",
    quota: Annotated[str, typer.Option("--quota", help="Quota of the greedy job, in the runs with one")] = "50mbit",
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Seconds of each run")] = 1.0,
    runs: RunsOption = 3,
    as_json: options.JsonOption = False,
) -> None:
    """Measure what floods at one host cost another host's job at the same server, with and without quotas."""
    from wiresum.bench.isolation import measure as benchmark

    quota_bps = parse_rate(quota)
    if quota_bps is None:
        raise typer.BadParameter("a quota is a rate, as 50mbit", param_hint="--quota")
    names = tuple(one_of(name, ENGINES, "--engines") for name in engines.split(","))
    chosen = benchmark.Options(names, parse_rate(rate), quota_bps, seconds, runs)
    with err().status("two hosts around a server") as status:
        report = benchmark.measure(chosen, status.update)
    show(report, as_json)


@command(epilog="Example: `wiresum bench coexistence --engines xdp --seconds 1`")
def coexistence(
    engines: Annotated[str, typer.Option("--engines", help="Engines to compare, comma-separated: xdp,udp")] = "xdp,udp",
    rate: Annotated[str, typer.Option("--rate", help="Rate of each link: 500mbit, none")] = "500mbit",
    loads: Annotated[
        str, typer.Option("--loads", help="Contributions per second of the job, comma-separated")
    ] = "5000,15000",
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Seconds of each run")] = 2.0,
    runs: RunsOption = 3,
    as_json: options.JsonOption = False,
) -> None:
    """Measure what a job and the TCP traffic of the same host and port cost each other."""
    from wiresum.bench.coexistence import measure as benchmark

    names = tuple(one_of(name, ENGINES, "--engines") for name in engines.split(","))
    chosen = benchmark.Options(names, parse_rate(rate), tuple(map(float, parse_numbers(loads))), seconds, runs)
    with err().status("a host and a server") as status:
        report = benchmark.measure(chosen, status.update)
    show(report, as_json)


@command(epilog="Example: `wiresum bench rates --rounds 100 --plot rates.png`")
def rates(
    engine: options.EngineOption = "auto",
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Number of negotiations that are timed")] = 50,
    rate: Annotated[str, typer.Option("--rate", help="Rate of every link at first")] = "600mbit",
    slow_rate: Annotated[str, typer.Option("--slow-rate", help="Rate to which the server's link drops")] = "200mbit",
    plot: options.PlotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Measure how long rate negotiation takes, and how rates follow a slower link (XAgg, Fig. 21, at 1:100)."""
    from wiresum.bench.rates import measure as benchmark
    from wiresum.bench.rates.step import Step

    wide, narrow = parse_rate(rate), parse_rate(slow_rate)
    if wide is None or narrow is None:
        raise typer.BadParameter("links need rates; give some, as 600mbit", param_hint="--rate")
    step = Step(wide_bps=wide, narrow_bps=narrow)
    chosen = benchmark.Options(choose_engine(engine, loopback=False), rounds, step=step)
    with err().status("") as status:
        report = benchmark.measure(chosen, status.update)
    if plot:
        from wiresum.bench.rates.plot import draw

        draw(report, plot)
        note(f"{plot}: what workers send while the link slows down")
    show(report, as_json)


@command(epilog="Example: `wiresum bench deploy --json`")
def deploy(runs: RunsOption = 7, as_json: options.JsonOption = False) -> None:
    """Time from the start of an aggregator to ready to sum, beside XAgg's figures."""
    from wiresum.bench.deploy import measure as benchmark

    with err().status("a server with two ports") as status:
        report = benchmark.measure(runs, status.update)
    show(report, as_json)


@command(epilog="Example: `wiresum bench upgrade --upgrades 10 --engine udp`")
def upgrade(
    count: Annotated[
        int, typer.Option("--upgrades", min=1, help="Number of daemons that are replaced, one after the other")
    ] = 20,
    seed: Annotated[int, typer.Option("--seed", help="Seed that chooses which daemon is replaced, and when")] = 1,
    policy: options.PolicyOption = "pool",
    engine: options.EngineOption = "auto",
    as_json: options.JsonOption = False,
) -> None:
    """Have new daemons take over from running ones at random moments of training on xagg, and check every step."""
    from wiresum.bench.upgrade import measure as benchmark
    from wiresum.commandline.console import progress_bar

    chosen = benchmark.Options(upgrades=count, engine=choose_engine(engine, loopback=False), policy=policy, seed=seed)
    with progress_bar() as bar:
        task = bar.add_task("upgrades", total=count)
        report = benchmark.measure(chosen, lambda done, _all: bar.update(task, completed=done))
    show(report, as_json)
