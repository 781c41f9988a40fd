"""`wiresum bench`: every figure that the documentation claims, with its rival in the same run."""

from pathlib import Path
from typing import Annotated, TypeVar, cast

import typer

from wiresum.bench.result import Report
from wiresum.bench.table import render
from wiresum.cli import options
from wiresum.cli.asynchrony import EXAMPLE, asynchrony
from wiresum.cli.console import err, note, out, print_json
from wiresum.cli.predict import parse_starts
from wiresum.cli.quantities import parse_fraction, parse_numbers, parse_rate, parse_size
from wiresum.cli.testbed import choose_engine
from wiresum.plan.aggregation_plan import Engine, Policy
from wiresum.plan.switching import SwitchEngine

T = TypeVar("T")

app = typer.Typer(help="Measure the product beside its rivals.", no_args_is_help=True)
app.command(epilog=EXAMPLE)(asynchrony)

LOSSES = "0,0.01%,0.1%,1%,2%,5%"
ENGINES: tuple[Engine, ...] = ("xdp", "udp")
POLICIES: tuple[Policy, ...] = ("pool", "cache")
SIM_CASES = "trains,packets,flows,memory"
LIVE_VALUES = "64,128,256,512,736"
LIVE_RATES = "25000,50000,100000,200000,400000"

PlotOption = Annotated[Path | None, typer.Option("--plot", help="Draw the result into this file, as .png or .svg")]
RunsOption = Annotated[int, typer.Option("--runs", min=1, help="Measured runs of each case")]


@app.command(epilog="Example: `wiresum bench live --rate 100mbit --size 8MB --json`")
def live(
    rate: Annotated[str, typer.Option("--rate", help="Of each link, each way: 100mbit")] = "100mbit",
    size: Annotated[str, typer.Option("--size", help="Of the float32 tensor: 8MB")] = "8MB",
    engine: Annotated[SwitchEngine, typer.Option("--engine", help="What runs the switches")] = "udp",
    cases: Annotated[list[str] | None, typer.Option("--case", help="Only this one, by name; repeat for more")] = None,
    runs: RunsOption = 5,
    as_json: options.JsonOption = False,
) -> None:
    """Run plans of switch planners in namespaces: bytes on each link and the rate, beside what they predict."""
    from wiresum.bench import live as benchmark

    chosen = benchmark.Options(
        rate_bps=limited(rate), size_bytes=parse_size(size), repeats=runs, engine=engine, cases=tuple(cases or ())
    )
    show(benchmark.measure(chosen, note), as_json)


@app.command(epilog="Example: `wiresum bench allreduce --workers 4 --rate 500mbit --size 25MB --against gloo`")
def allreduce(
    workers: Annotated[int, typer.Option("--workers", "-n", min=1, help="Hosts around a switch that sums")] = 4,
    rate: Annotated[str, typer.Option("--rate", help="Of each link, each way: 500mbit, 1gbit")] = "500mbit",
    size: Annotated[str, typer.Option("--size", help="Of the float32 tensor: 25MB, 64KiB")] = "25MB",
    against: Annotated[
        list[str] | None, typer.Option("--against", help="Rival: a backend, or ps, sharded_ps; repeat for more")
    ] = None,
    lanes: options.LanesOption = "int32-le",
    policy: options.PolicyOption = "pool",
    engine: Annotated[options.EngineChoice, typer.Option("--engine", help="What sums; auto: XDP if it works")] = "auto",
    window: options.WindowOption = options.DEFAULT_WINDOW,
    mtu: options.MtuOption = options.DEFAULT_MTU_BYTES,
    runs: RunsOption = 7,
    as_json: options.JsonOption = False,
) -> None:
    """Time all-reduces through torch.distributed on shaped links, conversion included."""
    from wiresum.bench import allreduce as benchmark

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
    with err.status(f"{workers} workers at {rate}: {size} through wiresum and {', '.join(chosen.against)}"):
        report = benchmark.measure(chosen)
    show(report, as_json)


@app.command(epilog="Example: `wiresum bench aggregator --engines xdp,af_xdp,udp,tcp --plot plots`")
def aggregator(
    engines: Annotated[
        str | None, typer.Option("--engines", help="Live over a veth pair instead: any of xdp,af_xdp,udp,tcp")
    ] = None,
    values: Annotated[str, typer.Option("--values", help="Of a live packet; the protocol's least is 64")] = LIVE_VALUES,
    rates: Annotated[str, typer.Option("--rates", help="Of a live load at a pace, in packets/s")] = LIVE_RATES,
    children: Annotated[int, typer.Option("--children", min=1, max=8, help="Of the live aggregator")] = 4,
    seconds: Annotated[float, typer.Option("--seconds", min=0.05, help="Of each live run")] = 1.0,
    offloads: Annotated[bool, typer.Option("--offloads", help="Leave segmentation and merging of packets on")] = False,
    plot: Annotated[Path | None, typer.Option("--plot", help="Folder for pictures of the live figures")] = None,
    runs: RunsOption = 7,
    as_json: options.JsonOption = False,
) -> None:
    """Time one packet in the kernel's test-run and in memory, hot and cold; or, with --engines, each engine live."""
    if engines is None:
        from wiresum.bench import native

        with err.status("packets through the kernel's test-run and through user space"):
            show(native.aggregator(runs), as_json)
        return
    from wiresum.bench import aggregator as benchmark
    from wiresum.bench import aggregator_plots

    chosen = benchmark.Options(
        engines=tuple(engines.split(",")),
        values=tuple(int(number) for number in parse_numbers(values)),
        rates=tuple(parse_numbers(rates)),
        children=children,
        seconds=seconds,
        runs=runs,
        offloads=offloads,
    )
    with err.status("two hosts") as status:
        report = benchmark.measure(chosen, status.update)
    if plot:
        for path in aggregator_plots.draw(report, plot):
            note(f"drew {path}")
    show(report, as_json)


@app.command(epilog="Example: `wiresum bench switch --runs 5`")
def switch(runs: RunsOption = 7, as_json: options.JsonOption = False) -> None:
    """Time one packet through the kernel's switch under each slot policy, in the kernel's test-run."""
    from wiresum.bench import native

    with err.status("packets through the kernel's test-run"):
        show(native.switch(runs), as_json)


@app.command(epilog="Example: `wiresum bench codec --json`")
def codec(runs: RunsOption = 7, as_json: options.JsonOption = False) -> None:
    """Time the conversion of floats to integers and back, in cache and out of it."""
    from wiresum.bench import native

    with err.status("float32, float16 and bfloat16 to lanes and back"):
        report = native.codec(runs)
    show(report, as_json)


@app.command(epilog="Example: `wiresum bench heterogeneity --late 2 --slow-rate 50mbit`")
def heterogeneity(
    rate: Annotated[str, typer.Option("--rate", help="Of every link but W2's")] = "100mbit",
    slow_rate: Annotated[str, typer.Option("--slow-rate", help="Of W2's link")] = "50mbit",
    late: Annotated[float, typer.Option("--late", min=0, help="Seconds by which W3 is late")] = 2.0,
    size: Annotated[str, typer.Option("--size", help="Of the float32 gradient")] = "12.5MB",
    both_ways: Annotated[
        bool, typer.Option("--both-ways", help="Limit results too; the paper counts the way up")
    ] = False,
    method: Annotated[list[str] | None, typer.Option("--method", help="Repeat for several [default: all]")] = None,
    engine: Annotated[options.EngineChoice, typer.Option("--engine", help="What sums; auto: XDP if it works")] = "auto",
    codec: options.CodecOption = "fixed:1e8",
    plot: PlotOption = None,
    runs: RunsOption = 3,
    as_json: options.JsonOption = False,
) -> None:
    """Sum with a slow link and a late worker, by method (XAgg, Fig. 1, at 1:100 by default)."""
    from wiresum.bench import heterogeneity as benchmark

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
    with err.status("") as status:
        report = benchmark.measure(chosen, lambda title: status.update(f"{title}, {runs} times"))
    if plot:
        from wiresum.bench.heterogeneity_plot import draw

        draw(report, plot)
        note(f"{plot}: rates over time, predicted and measured")
    show(report, as_json)


@app.command("async", epilog="Example: `wiresum bench async --plot async.png`")
def asynchronous(
    workers: Annotated[int, typer.Option("--workers", "-n", min=2, max=64, help="Hosts around a switch that sums")] = 8,
    rate: Annotated[str, typer.Option("--rate", help="Of each link, each way")] = "100mbit",
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Sums of each training")] = 100,
    delay: Annotated[
        float, typer.Option("--delay", min=0, help="Seconds of the longest delay; the mean is half")
    ] = 0.6,
    deviation: Annotated[float, typer.Option("--deviation", min=0, help="Of the delays, in units of --delay")] = 0.2,
    target: Annotated[
        float, typer.Option("--target", min=0.02, help="Of the mean square, in gradient variances")
    ] = 1.0,
    method: Annotated[list[str] | None, typer.Option("--method", help="Repeat for several [default: all]")] = None,
    engine: Annotated[options.EngineChoice, typer.Option("--engine", help="What sums; auto: XDP if it works")] = "auto",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Trainings of each method")] = 1,
    plot: PlotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Train while workers are late at random: GOAT-Async beside K-SGD and rounds of everyone (GOAT, Exp. 4 and 5)."""
    from wiresum.bench import participation as benchmark

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
    with err.status("") as status:
        report = benchmark.measure(chosen, lambda title: status.update(f"{title}: {rounds} rounds"))
    if plot:
        from wiresum.bench.participation_plot import draw

        draw(report, plot)
        note(f"{plot}: accuracy over time, and speed")
    show(report, as_json)


@app.command(epilog="Example: `wiresum bench forest --workers 4 --rate 200mbit --size 10MB --plot forest.png`")
def forest(
    workers: Annotated[int, typer.Option("--workers", "-n", min=1, help="Hosts that train; 1 to as many sum")] = 4,
    rate: Annotated[str, typer.Option("--rate", help="Of each link, each way: 200mbit, 1gbit")] = "200mbit",
    size: Annotated[str, typer.Option("--size", help="Of the float32 tensor: 10MB, 64KiB")] = "10MB",
    policy: options.PolicyOption = "pool",
    engine: Annotated[options.EngineChoice, typer.Option("--engine", help="What sums; auto: XDP if it works")] = "auto",
    solver_only: Annotated[
        bool, typer.Option("--solver-only", help="Only plan, on growing networks: seconds, gap, trees")
    ] = False,
    time_limit: Annotated[float, typer.Option("--time-limit", help="Seconds for each plan of --solver-only")] = 30.0,
    plot: PlotOption = None,
    runs: RunsOption = 5,
    as_json: options.JsonOption = False,
) -> None:
    """Time all-reduces over one to n servers with the workers' links, beside the bound and Gloo's ring."""
    from wiresum.bench import forest as benchmark
    from wiresum.bench import forest_solver

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


@app.command(epilog="Example: `wiresum bench planners --seeds 30 --rival-limit 300`")
def planners(
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Of the roundings")] = 30,
    time_limit: options.TimeLimitOption = options.DEFAULT_TIME_LIMIT_S,
    rival: Annotated[
        bool, typer.Option("--rival/--no-rival", help="PuLP and CBC on the formulation as printed")
    ] = True,
    rival_limit: Annotated[float, typer.Option("--rival-limit", help="Seconds of the rival for each network")] = 120.0,
    large: Annotated[bool, typer.Option("--large/--no-large", help="A fat-tree of 1,280 switches too")] = True,
    as_json: options.JsonOption = False,
) -> None:
    """Plan GOAT's networks, and a large one: optimality gap, feasibility and seconds, beside PuLP and CBC."""
    from wiresum.bench import planners as benchmark

    chosen = benchmark.Options(seeds, time_limit, rival_limit if rival else 0.0, large)
    show(benchmark.measure(chosen, note), as_json)


@app.command(epilog="Example: `wiresum bench routing --workers 50 --seeds 1 --plot rates.png`")
def routing(
    workers: Annotated[str, typer.Option("--workers", help="Numbers of workers in the fat-tree")] = "10,30,50",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Networks and places of workers, for each number")] = 3,
    time_limit: options.TimeLimitOption = options.DEFAULT_TIME_LIMIT_S,
    plot: PlotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Plan InGo's networks: the rate that each planner leaves to a worker, beside the proven bound."""
    from wiresum.bench import routing as benchmark

    numbers = [int(number) for number in parse_numbers(workers)]
    report = benchmark.measure(benchmark.Options(numbers, seeds, time_limit), note)
    if plot:
        benchmark.draw(report, "mean_gbps", "fat-tree", plot)
        note(f"{plot}: rates by number of workers")
    show(report, as_json)


@app.command(epilog="Example: `wiresum bench compare --method xagg --method gloo --start W3=0.2 --plot compare.png`")
def compare(
    method: Annotated[
        list[str] | None, typer.Option("--method", "-m", help="One of them; repeat for more [default: all]")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="NAME=SIZE; repeat for more [default: the paper's five]")
    ] = None,
    scale: Annotated[float, typer.Option("--scale", help="Factor on the paper's rates")] = 0.002,
    model_scale: Annotated[float, typer.Option("--model-scale", help="Factor on the models' sizes")] = 0.01,
    start: Annotated[
        list[str] | None, typer.Option("--start", help="WORKER=SECONDS until it has its gradient; repeatable")
    ] = None,
    engine: Annotated[options.EngineChoice, typer.Option("--engine", help="What sums; auto: XDP if it works")] = "auto",
    plot: PlotOption = None,
    runs: RunsOption = 3,
    as_json: options.JsonOption = False,
) -> None:
    """Time methods beside each other on XAgg's test bed (Fig. 12 and 13), turn by turn, with each one's bound."""
    from wiresum.bench import compare as benchmark
    from wiresum.bench.compare_methods import METHODS

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
        out.print(benchmark.table(report))


def parse_models(given: list[str]) -> dict[str, int]:
    """Bytes by name from `ResNet50=97MB`.

    Raises:
        typer.BadParameter: it has another form.
    """
    pairs = [text.partition("=") for text in given]
    nameless = next((name for name, _, size in pairs if not (name and size)), None)
    if nameless is not None:
        raise typer.BadParameter(f"{nameless} is not a model; give NAME=SIZE, as ResNet50=97MB", param_hint="--model")
    return {name: parse_size(size) for name, _, size in pairs}


def limited(rate: str) -> float:
    """bit/s of links that have to have a rate, as a bound is computed from it."""
    rate_bps = parse_rate(rate)
    if rate_bps is None:
        raise typer.BadParameter("the bound needs a rate; give one, as 500mbit", param_hint="--rate")
    return rate_bps


@app.command(epilog="Example: `wiresum bench loss --losses 0,1% --topologies star --engines xdp --policies pool`")
def loss(
    losses: Annotated[str, typer.Option("--losses", help="Of packets on every link, each way")] = LOSSES,
    topologies: Annotated[str, typer.Option("--topologies", help="Any of star,xagg")] = "star,xagg",
    engines: Annotated[str, typer.Option("--engines", help="Any of xdp,udp")] = "xdp,udp",
    policies: Annotated[str, typer.Option("--policies", help="Any of pool,cache")] = "pool,cache",
    size: Annotated[str, typer.Option("--size", help="Of the float32 tensor")] = "8MB",
    plot: Annotated[Path | None, typer.Option("--plot", help="Folder for a picture")] = None,
    runs: RunsOption = 3,
    as_json: options.JsonOption = False,
) -> None:
    """Time all-reduces over links that lose packets, beside Gloo's ring over TCP; every sum is checked."""
    from wiresum.bench import loss as benchmark

    chosen = benchmark.Options(
        losses=tuple(parse_fraction(text) for text in losses.split(",")),
        topologies=tuple(_one_of(name, ("star", "xagg"), "--topologies") for name in topologies.split(",")),
        engines=tuple(_one_of(name, ENGINES, "--engines") for name in engines.split(",")),
        policies=tuple(_one_of(name, POLICIES, "--policies") for name in policies.split(",")),
        size_bytes=parse_size(size),
        repeats=runs,
    )
    with err.status("lossy links") as status:
        report = benchmark.measure(chosen, status.update)
    if plot:
        note(f"drew {benchmark.draw(report, plot)}")
    show(report, as_json)


def _one_of(name: str, known: tuple[T, ...], option: str) -> T:
    found = next((candidate for candidate in known if candidate == name), None)
    if found is None:
        raise typer.BadParameter(f"{name} is not one of {', '.join(map(str, known))}", param_hint=option)
    return found


@app.command(epilog="Example: `wiresum bench kills --kills 20 --engine udp`")
def kills(
    count: Annotated[int, typer.Option("--kills", min=1, help="Servers killed, one after the other")] = 100,
    scale: Annotated[float, typer.Option("--scale", help="Of xagg's rates")] = 0.01,
    down: Annotated[float, typer.Option("--down", min=0, help="Seconds until a killed server is started again")] = 0.5,
    seed: Annotated[int, typer.Option("--seed", help="Of victims and moments")] = 1,
    policy: options.PolicyOption = "pool",
    engine: Annotated[options.EngineChoice, typer.Option("--engine", help="What sums; auto: XDP if it works")] = "auto",
    deep: Annotated[bool, typer.Option("--deep", help="Put S1 below S2, so that servers have servers below")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Kill aggregation servers (SIGKILL) at random moments of training on xagg, and check every step."""
    from wiresum.bench import kills as benchmark
    from wiresum.cli.demo import progress_bar

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


@app.command(epilog="Example: `wiresum bench isolation --engines xdp --rate 500mbit`")
def isolation(
    engines: Annotated[str, typer.Option("--engines", help="That sum, with commas between")] = "xdp,udp",
    rate: Annotated[str, typer.Option("--rate", help="Of each link: 500mbit, none")] = "500mbit",
    quota: Annotated[str, typer.Option("--quota", help="Of the greedy job, where it has one")] = "50mbit",
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Of each run")] = 1.0,
    runs: RunsOption = 3,
    as_json: options.JsonOption = False,
) -> None:
    """What floods at one host cost another host's job at the same server, with and without quotas."""
    from wiresum.bench import isolation as benchmark

    quota_bps = parse_rate(quota)
    if quota_bps is None:
        raise typer.BadParameter("a quota is a rate, as 50mbit", param_hint="--quota")
    names = cast(tuple[Engine, ...], tuple(engines.split(",")))
    chosen = benchmark.Options(names, parse_rate(rate), quota_bps, seconds, runs)
    with err.status("two hosts around a server") as status:
        report = benchmark.measure(chosen, status.update)
    show(report, as_json)


@app.command(epilog="Example: `wiresum bench rates --rounds 100 --plot rates.png`")
def rates(
    engine: Annotated[options.EngineChoice, typer.Option("--engine", help="What sums; auto: XDP if it works")] = "auto",
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Of negotiation, for its latency")] = 50,
    rate: Annotated[str, typer.Option("--rate", help="Of every link at first")] = "600mbit",
    slow_rate: Annotated[str, typer.Option("--slow-rate", help="That the server's falls to")] = "200mbit",
    plot: PlotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """How long rate negotiation takes, and how rates follow a link that slows down (XAgg, Fig. 21, at 1:100)."""
    from wiresum.bench import rates as benchmark
    from wiresum.bench.rates_step import Step

    wide, narrow = parse_rate(rate), parse_rate(slow_rate)
    if wide is None or narrow is None:
        raise typer.BadParameter("links need rates; give some, as 600mbit", param_hint="--rate")
    step = Step(wide_bps=wide, narrow_bps=narrow)
    chosen = benchmark.Options(choose_engine(engine, loopback=False), rounds, step=step)
    with err.status("") as status:
        report = benchmark.measure(chosen, status.update)
    if plot:
        from wiresum.bench.rates_plot import draw

        draw(report, plot)
        note(f"{plot}: what workers send while the link slows down")
    show(report, as_json)


@app.command(epilog="Example: `wiresum bench deploy --json`")
def deploy(runs: RunsOption = 7, as_json: options.JsonOption = False) -> None:
    """Time from the start of an aggregator to ready to sum, beside XAgg's figures."""
    from wiresum.bench import deploy as benchmark

    with err.status("a server with two ports") as status:
        report = benchmark.measure(runs, status.update)
    show(report, as_json)


@app.command(epilog="Example: `wiresum bench coexistence --engines xdp --seconds 1`")
def coexistence(
    engines: Annotated[str, typer.Option("--engines", help="That sum, with commas between")] = "xdp,udp",
    rate: Annotated[str, typer.Option("--rate", help="Of each link: 500mbit, none")] = "500mbit",
    loads: Annotated[str, typer.Option("--loads", help="Contributions per second of the job")] = "5000,15000",
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Of each run")] = 2.0,
    runs: RunsOption = 3,
    as_json: options.JsonOption = False,
) -> None:
    """What a job and the TCP traffic of the same host and port cost each other."""
    from wiresum.bench import coexistence as benchmark

    names = cast(tuple[Engine, ...], tuple(engines.split(",")))
    chosen = benchmark.Options(names, parse_rate(rate), tuple(map(float, parse_numbers(loads))), seconds, runs)
    with err.status("a host and a server") as status:
        report = benchmark.measure(chosen, status.update)
    show(report, as_json)


@app.command(epilog="Example: `wiresum bench sim --fidelities trains,flows --runs 1`")
def sim(
    fidelities: Annotated[str, typer.Option("--fidelities", help="Any of trains,packets,flows,memory")] = SIM_CASES,
    scale: Annotated[float, typer.Option("--scale", min=0.0001, help="Factor on what is sent")] = 1.0,
    htsim: Annotated[
        Path | None, typer.Option("--htsim", help="csg-htsim's htsim_ndp, to run beside packets, turn by turn")
    ] = None,
    keep: Annotated[Path | None, typer.Option("--keep", help="Folder for the resolved scenarios")] = None,
    runs: RunsOption = 3,
    as_json: options.JsonOption = False,
) -> None:
    """How fast the simulator is at each fidelity, per second of CPU time, and what memory it takes."""
    from wiresum.bench import sim as benchmark
    from wiresum.cli.simulate import load

    names = tuple(_one_of(name, tuple(SIM_CASES.split(",")), "--fidelities") for name in fidelities.split(","))
    chosen = benchmark.Options(names, runs, scale, htsim, keep)
    with err.status("virtual time") as status:
        report = benchmark.measure(chosen, load, status.update)
    show(report, as_json)


@app.command(epilog="Example: `wiresum bench upgrade --upgrades 10 --engine udp`")
def upgrade(
    count: Annotated[int, typer.Option("--upgrades", min=1, help="Daemons taken over, one after the other")] = 20,
    seed: Annotated[int, typer.Option("--seed", help="Of daemons and moments")] = 1,
    policy: options.PolicyOption = "pool",
    engine: Annotated[options.EngineChoice, typer.Option("--engine", help="What sums; auto: XDP if it works")] = "auto",
    as_json: options.JsonOption = False,
) -> None:
    """Have new daemons take over from running ones at random moments of training on xagg, and check every step."""
    from wiresum.bench import upgrade as benchmark
    from wiresum.cli.demo import progress_bar

    chosen = benchmark.Options(upgrades=count, engine=choose_engine(engine, loopback=False), policy=policy, seed=seed)
    with progress_bar() as bar:
        task = bar.add_task("upgrades", total=count)
        report = benchmark.measure(chosen, lambda done, _all: bar.update(task, completed=done))
    show(report, as_json)


def show(report: Report, as_json: bool) -> None:
    """One JSON object for machines, a table for people."""
    if as_json:
        print_json(report.to_json())
    else:
        out.print(render(report))
