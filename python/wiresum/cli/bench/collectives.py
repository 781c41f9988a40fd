"""All-reduces and trainings beside their rivals."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from wiresum.cli.bench.shared import ENGINES, POLICIES, RunsOption, limited, one_of, parse_models, show
from wiresum.commandline import options
from wiresum.commandline.console import err, note, out, print_json
from wiresum.commandline.options import choose_engine
from wiresum.commandline.quantities import parse_fraction, parse_rate, parse_size, parse_starts
from wiresum.plan.choices import DEFAULT_MTU_BYTES, DEFAULT_WINDOW

app = typer.Typer()
command = partial(app.command, rich_help_panel="All-reduces and trainings")

LOSSES = "0,0.01%,0.1%,1%,2%,5%"


@command(epilog="Example: `wiresum bench allreduce --workers 4 --rate 500mbit --size 25MB --against gloo`")
def allreduce(
    workers: Annotated[
        int, typer.Option("--workers", "-n", min=1, help="Number of hosts around a switch that sums")
    ] = 4,
    rate: Annotated[str, typer.Option("--rate", help="Rate of each link, each way: 500mbit, 1gbit")] = "500mbit",
    size: Annotated[str, typer.Option("--size", help="Size of the float32 tensor: 25MB, 64KiB")] = "25MB",
    against: Annotated[
        list[str] | None, typer.Option("--against", help="Rival: a backend, or ps, sharded_ps; repeatable")
    ] = None,
    lanes: options.LanesOption = "int32-le",
    policy: options.PolicyOption = "pool",
    engine: options.EngineOption = "auto",
    window: options.WindowOption = DEFAULT_WINDOW,
    mtu: options.MtuOption = DEFAULT_MTU_BYTES,
    runs: RunsOption = 7,
    as_json: options.JsonOption = False,
) -> None:
    """Time all-reduces through torch.distributed on shaped links, conversion included."""
    from wiresum.bench.allreduce import measure as benchmark

    chosen = benchmark.Options(
        workers=workers,
        rate_bps=limited(rate),
        size_bytes=parse_size(size),
        against=tuple(against or ["gloo"]),
        repeats=runs,
        lanes=lanes,
        policy=policy,
        engine=choose_engine(engine, loopback=False),
        window=window,
        mtu_bytes=mtu,
    )
    with err().status(f"{workers} workers at {rate}: {size} through wiresum and {', '.join(chosen.against)}"):
        report = benchmark.measure(chosen)
    show(report, as_json)


@command(epilog="Example: `wiresum bench compare --method xagg --method gloo --start W3=0.2 --plot compare.png`")
def compare(
    method: Annotated[
        list[str] | None, typer.Option("--method", "-m", help="Method to time; repeatable [default: all]")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="Model as NAME=SIZE; repeatable [default: the paper's five]")
    ] = None,
    scale: Annotated[float, typer.Option("--scale", help="Factor on the paper's rates")] = 0.002,
    model_scale: Annotated[float, typer.Option("--model-scale", help="Factor on the models' sizes")] = 0.01,
    start: Annotated[
        list[str] | None, typer.Option("--start", help="WORKER=SECONDS until it has its gradient; repeatable")
    ] = None,
    engine: options.EngineOption = "auto",
    plot: options.PlotOption = None,
    runs: RunsOption = 3,
    as_json: options.JsonOption = False,
) -> None:
    """Time methods beside each other on XAgg's test bed (Fig. 12 and 13), turn by turn, with each one's bound."""
    from wiresum.bench.compare import measure as benchmark
    from wiresum.bench.compare.methods import METHODS

    chosen = benchmark.Options(
        methods=tuple(method or METHODS),
        models=parse_models(model or []) or benchmark.MODELS,
        scale=scale,
        model_scale=model_scale,
        starts=parse_starts(start or []),
        repeats=runs,
        engine=choose_engine(engine, loopback=False),
    )
    report = benchmark.measure(chosen, note)
    if plot:
        benchmark.draw(report, plot)
        note(f"{plot}: times by model")
    if as_json:
        print_json(report.to_json())
    else:
        out().print(benchmark.table(report))


@command(epilog="Example: `wiresum bench forest --workers 4 --rate 200mbit --size 10MB --plot forest.png`")
def forest(
    workers: Annotated[
        int, typer.Option("--workers", "-n", min=1, help="Number of hosts that train; 1 to as many servers sum")
    ] = 4,
    rate: Annotated[str, typer.Option("--rate", help="Rate of each link, each way: 200mbit, 1gbit")] = "200mbit",
    size: Annotated[str, typer.Option("--size", help="Size of the float32 tensor: 10MB, 64KiB")] = "10MB",
    policy: options.PolicyOption = "pool",
    engine: options.EngineOption = "auto",
    solver_only: Annotated[
        bool, typer.Option("--solver-only", help="Plan only, on growing networks, and show seconds, gap and trees")
    ] = False,
    time_limit: Annotated[float, typer.Option("--time-limit", help="Seconds for each plan of --solver-only")] = 30.0,
    plot: options.PlotOption = None,
    runs: RunsOption = 5,
    as_json: options.JsonOption = False,
) -> None:
    """Time all-reduces over one to n servers with the workers' links, beside the bound and Gloo's ring."""
    from wiresum.bench.forest import measure as benchmark
    from wiresum.bench.forest import solver as forest_solver

    if solver_only:
        show(forest_solver.measure(time_limit, note), as_json)
        return
    chosen = benchmark.Options(
        workers=workers,
        rate_bps=limited(rate),
        size_bytes=parse_size(size),
        repeats=runs,
        policy=policy,
        engine=choose_engine(engine, loopback=False),
    )
    report = benchmark.measure(chosen, note)
    if plot:
        benchmark.draw(report, plot)
        note(f"{plot}: times by number of servers")
    show(report, as_json)


@command(epilog="Example: `wiresum bench heterogeneity --late 2 --slow-rate 50mbit`")
def heterogeneity(
    rate: Annotated[str, typer.Option("--rate", help="Rate of every link but that of W2")] = "100mbit",
    slow_rate: Annotated[str, typer.Option("--slow-rate", help="Rate of the link of W2")] = "50mbit",
    late: Annotated[float, typer.Option("--late", min=0, help="Seconds by which W3 is late")] = 2.0,
    size: Annotated[str, typer.Option("--size", help="Size of the float32 gradient")] = "12.5MB",
    both_ways: Annotated[
        bool, typer.Option("--both-ways", help="Limit the way down too; the paper counts the way up")
    ] = False,
    method: Annotated[
        list[str] | None, typer.Option("--method", help="Method to run; repeatable [default: all]")
    ] = None,
    engine: options.EngineOption = "auto",
    codec: options.CodecOption = "fixed:1e8",
    plot: options.PlotOption = None,
    runs: RunsOption = 3,
    as_json: options.JsonOption = False,
) -> None:
    """Sum with a slow link and a late worker, by method (XAgg, Fig. 1, at 1:100 by default)."""
    from wiresum.bench.heterogeneity import measure as benchmark

    rates = [parse_rate(rate), parse_rate(slow_rate)]
    if None in rates:
        raise typer.BadParameter("the bounds need rates; give some, as 100mbit", param_hint="--rate")
    chosen = benchmark.Options(
        rate_bps=rates[0] or 0,
        slow_rate_bps=rates[1] or 0,
        late_s=late,
        size_bytes=parse_size(size),
        both_ways=both_ways,
        methods=tuple(method or ()),
        repeats=runs,
        engine=choose_engine(engine, loopback=False),
        codec=codec,
        rates=plot is not None,
    )
    with err().status("") as status:
        report = benchmark.measure(chosen, lambda title: status.update(f"{title}, {runs} times"))
    if plot:
        from wiresum.bench.heterogeneity.plot import draw

        draw(report, plot)
        note(f"{plot}: rates over time, predicted and measured")
    show(report, as_json)


@command("async", epilog="Example: `wiresum bench async --plot async.png`")
def asynchronous(
    workers: Annotated[
        int, typer.Option("--workers", "-n", min=2, max=64, help="Number of hosts around a switch that sums")
    ] = 8,
    rate: Annotated[str, typer.Option("--rate", help="Rate of each link, each way")] = "100mbit",
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Number of rounds of each training")] = 100,
    delay: Annotated[
        float, typer.Option("--delay", min=0, help="Seconds of the longest delay; the mean delay is half of it")
    ] = 0.6,
    deviation: Annotated[
        float, typer.Option("--deviation", min=0, help="Standard deviation of the delays, in units of --delay")
    ] = 0.2,
    target: Annotated[
        float, typer.Option("--target", min=0.02, help="Mean square of the gradient to reach, in gradient variances")
    ] = 1.0,
    method: Annotated[
        list[str] | None, typer.Option("--method", help="Method to run; repeatable [default: all]")
    ] = None,
    engine: options.EngineOption = "auto",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of trainings of each method")] = 1,
    plot: options.PlotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Train while workers are late at random: GOAT-Async beside K-SGD and rounds of everyone (GOAT, Exp. 4 and 5)."""
    from wiresum.bench.participation import measure as benchmark

    chosen = benchmark.Options(
        workers=workers,
        rate_bps=limited(rate),
        rounds=rounds,
        delay_s=delay,
        deviation=deviation,
        target=target,
        methods=tuple(method or ()),
        engine=choose_engine(engine, loopback=False),
        seeds=seeds,
    )
    with err().status("") as status:
        report = benchmark.measure(chosen, lambda title: status.update(f"{title}: {rounds} rounds"))
    if plot:
        from wiresum.bench.participation.plot import draw

        draw(report, plot)
        note(f"{plot}: accuracy over time, and speed")
    show(report, as_json)


@command(epilog="Example: `wiresum bench loss --losses 0,1% --topologies star --engines xdp --policies pool`")
def loss(
    losses: Annotated[
        str, typer.Option("--losses", help="Shares of packets that every link loses, each way, comma-separated")
    ] = LOSSES,
    topologies: Annotated[
        str, typer.Option("--topologies", help="Topologies to measure, comma-separated: star,xagg")
    ] = "star,xagg",
    engines: Annotated[str, typer.Option("--engines", help="Engines to measure, comma-separated: xdp,udp")] = "xdp,udp",
    policies: Annotated[
        str, typer.Option("--policies", help="Policies to measure, comma-separated: pool,cache")
    ] = "pool,cache",
    size: Annotated[str, typer.Option("--size", help="Size of the float32 tensor")] = "8MB",
    plot: Annotated[Path | None, typer.Option("--plot", help="Folder for a picture")] = None,
    runs: RunsOption = 3,
    as_json: options.JsonOption = False,
) -> None:
    """Time all-reduces over links that lose packets, beside Gloo's ring over TCP; every sum is checked."""
    from wiresum.bench.loss import measure as benchmark

    chosen = benchmark.Options(
        losses=tuple(parse_fraction(text) for text in losses.split(",")),
        topologies=tuple(one_of(name, ("star", "xagg"), "--topologies") for name in topologies.split(",")),
        engines=tuple(one_of(name, ENGINES, "--engines") for name in engines.split(",")),
        policies=tuple(one_of(name, POLICIES, "--policies") for name in policies.split(",")),
        size_bytes=parse_size(size),
        repeats=runs,
    )
    with err().status("lossy links") as status:
        report = benchmark.measure(chosen, status.update)
    if plot:
        note(f"drew {benchmark.draw(report, plot)}")
    show(report, as_json)
