"""`wiresum testbed`: networks of namespaces, and commands in them."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from wiresum.cli import options
from wiresum.cli.console import note, out, print_json
from wiresum.cli.options import EngineChoice, load_topology, place_job
from wiresum.cli.plan import switch_engine
from wiresum.cli.testbed_summary import describe, summarize
from wiresum.plan.aggregation_plan import AggregationPlan, Engine
from wiresum.plan.assignment.wiring import with_engine
from wiresum.plan.options import PlanOptions
from wiresum.testbed import Testbed, records, support
from wiresum.testbed import run as run_at_workers
from wiresum.testbed.environment import BACKEND_VARIABLE
from wiresum.testbed.networks import DEFAULT_LOSS_SEED
from wiresum.topology.model import Topology

app = typer.Typer(help="Build networks of namespaces on this machine and run commands in them.", no_args_is_help=True)

BackendOption = Annotated[
    str, typer.Option("--backend", "-b", help="`wiresum` starts aggregators; any other name leaves them out")
]
EngineOption = Annotated[
    EngineChoice, typer.Option("--engine", help="What runs the aggregators; auto: XDP if it works")
]
NameOption = Annotated[str | None, typer.Option("--name", help="Distinguishes testbeds that run at the same time")]
LoopbackOption = Annotated[bool, typer.Option("--loopback", help="No namespaces: processes on the loopback interface")]
PlanOption = Annotated[
    Path | None,
    typer.Option("--plan", help="Plan file; the planner's options are then ignored, --engine but for switches"),
]


@app.command(epilog="Example: `wiresum testbed run star --workers 4 --rate 500mbit -- python train.py`")
def run(
    topology: options.TopologyArgument,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND…", help="Runs once at every worker")],
    workers: options.WorkersOption = None,
    rate: options.RateOption = None,
    servers: options.ServersOption = None,
    server_rate: options.ServerRateOption = None,
    colocated: options.ColocatedOption = None,
    scale: options.ScaleOption = None,
    loss: options.LossOption = None,
    seed: options.SeedOption = DEFAULT_LOSS_SEED,
    backend: BackendOption = "wiresum",
    policy: options.PolicyOption = "pool",
    lanes: options.LanesOption = "int32-le",
    codec: options.CodecOption = "block",
    exponents: options.ExponentsOption = "agreed",
    window: options.WindowOption = options.DEFAULT_WINDOW,
    slots: options.SlotsOption = None,
    gradient: options.GradientOption = options.DEFAULT_GRADIENT,
    mtu: options.MtuOption = options.DEFAULT_MTU_BYTES,
    planner: options.PlannerOption = "direct",
    plan: PlanOption = None,
    engine: EngineOption = "auto",
    name: NameOption = None,
    loopback: LoopbackOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Run a command once at every worker of a topology.

    Each worker has RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and what Wiresum needs in its environment, so an ordinary
    training script runs as it is. Output is shown by rank; the first failure ends the run, with its exit code.
    """
    network = load_topology(
        topology,
        loss=loss,
        workers=workers,
        rate=rate,
        scale=scale,
        servers=servers,
        server_rate=server_rate,
        colocated=colocated,
    )
    made = _plan(
        network, plan, backend, engine, loopback, planner, gradient,
        policy=policy, lanes=lanes, codec=codec, exponents=exponents, window=window, slots=slots, mtu_bytes=mtu,
    )  # fmt: skip
    sink = sys.stderr if as_json else sys.stdout
    with Testbed(network, made, name=name, mtu_bytes=mtu, loopback=loopback or None, loss_seed=seed) as bed:
        _announce(bed)

        def show(rank: int, is_error: bool, line: str) -> None:
            print(f"[{rank}] {line}", file=sys.stderr if is_error else sink, flush=True)

        outcome = run_at_workers(bed, command, show, {BACKEND_VARIABLE: backend})
        for node, words in bed.dead_aggregators().items():
            note(f"the aggregator at {node} has ended by itself: {words}")
        counters = bed.stop_aggregators()
    if as_json:
        print_json(summarize(bed, backend, outcome, counters))
    else:
        note(describe(bed, outcome))
    raise typer.Exit(outcome.exit_code)


@app.command(epilog="Example: `wiresum testbed up star --workers 2 --backend gloo --name lab`")
def up(
    topology: options.TopologyArgument,
    workers: options.WorkersOption = None,
    rate: options.RateOption = None,
    servers: options.ServersOption = None,
    server_rate: options.ServerRateOption = None,
    colocated: options.ColocatedOption = None,
    scale: options.ScaleOption = None,
    loss: options.LossOption = None,
    seed: options.SeedOption = DEFAULT_LOSS_SEED,
    backend: BackendOption = "wiresum",
    policy: options.PolicyOption = "pool",
    mtu: options.MtuOption = options.DEFAULT_MTU_BYTES,
    plan: PlanOption = None,
    engine: EngineOption = "auto",
    name: NameOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Build a testbed and leave it up, to look around in it with `ip netns exec`."""
    network = load_topology(
        topology,
        loss=loss,
        workers=workers,
        rate=rate,
        scale=scale,
        servers=servers,
        server_rate=server_rate,
        colocated=colocated,
    )
    made = _plan(
        network, plan, backend, engine, False, "direct", options.DEFAULT_GRADIENT, policy=policy, mtu_bytes=mtu
    )
    bed = Testbed(network, made, name=name or network.name, mtu_bytes=mtu, loopback=False, loss_seed=seed)
    bed.up()
    bed.keep()
    if as_json:
        print_json({"name": bed.name, "namespaces": bed.network.namespaces})
    else:
        for node, namespace in bed.network.namespaces.items():
            out.print(f"{node}: ip netns exec {namespace} …")


@app.command(epilog="Example: `wiresum testbed down lab`")
def down(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]…", help="Testbeds; see `list`")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that no running process holds")] = False,
) -> None:
    """Remove testbeds that were left up, and what killed ones left."""
    records.remove_leftovers()
    kept = [record.name for record in records.everything() if record.kept]
    if not names and not every:
        raise typer.BadParameter(f"name a testbed or give --all; up are: {', '.join(kept) or 'none'}")
    for name in kept if every else names or []:
        records.take_down(name)
        note(f"{name} is down")


@app.command("list", epilog="Example: `wiresum testbed list --json`")
def list_testbeds(as_json: options.JsonOption = False) -> None:
    """List the testbeds of this machine."""
    found = [
        {"name": record.name, "topology": record.topology, "owner": record.owner.pid, "state": _state(record)}
        for record in records.everything()
    ]
    if as_json:
        print_json(found)
        return
    for entry in found:
        out.print(f"{entry['name']}: {entry['topology']}, {entry['state']}")
    if not found:
        note("there are no testbeds")


def _state(record: records.Record) -> str:
    if record.kept:
        return "up"
    return "running" if record.owner.alive else "left by a killed process"


def _plan(
    network: Topology,
    file: Path | None,
    backend: str,
    engine: EngineChoice,
    loopback: bool,
    planner: str,
    gradient: str,
    **job: Any,
) -> AggregationPlan | None:
    """The plan to run; None for a backend that needs no aggregators."""
    if backend != "wiresum":
        return None
    if file:
        return read_plan(file, engine)
    return place_job(network, planner, PlanOptions(engine=choose_engine(engine, loopback)), gradient, **job)


def read_plan(file: Path, engine: EngineChoice) -> AggregationPlan:
    """A plan as it is, but for the engine of its switches if one is asked for."""
    plan = AggregationPlan.read(file)
    return plan if plan.fabric is None or engine == "auto" else with_engine(plan, switch_engine(engine))


def choose_engine(choice: EngineChoice, loopback: bool) -> Engine:
    """What runs the aggregators: what was asked for, or XDP where it works."""
    if choice != "auto":
        return choice
    problem = "" if loopback else support.why_no_xdp()
    if problem:
        note(f"gradients are summed in user space: {problem}")
    return "udp" if loopback or problem else "xdp"


def _announce(bed: Testbed) -> None:
    if bed.why_loopback:
        note(f"loopback instead of namespaces ({bed.why_loopback}): {'; '.join(bed.left_out)}")
