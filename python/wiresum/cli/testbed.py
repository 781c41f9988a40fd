"""`wiresum testbed`: networks of namespaces, and commands in them."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiresum.cli.plan import switch_engine
from wiresum.cli.turns import Run, TurnsOptions, require_no_jobs, run_in_turns
from wiresum.commandline import options
from wiresum.commandline.console import note, out, print_json
from wiresum.commandline.contents import Section
from wiresum.commandline.groups import grouped
from wiresum.commandline.options import EngineChoice, choose_engine
from wiresum.commandline.progress import working
from wiresum.plan.choices import DEFAULT_MTU_BYTES

if TYPE_CHECKING:
    from wiresum.deploy.deployment import Deployment
    from wiresum.deploy.tables import TableDaemons
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.testbed import Testbed
    from wiresum.testbed.records import Record
    from wiresum.topology.model import Topology

app = Section("Build networks of namespaces on this machine and run commands in them.")

SILENT = "no rank has printed a line yet; to import PyTorch takes each some seconds"

BackendOption = Annotated[
    str, typer.Option("--backend", "-b", help="Backend of the workers; only `wiresum` starts aggregators")
]
NameOption = Annotated[
    str | None, typer.Option("--name", help="Name that tells this testbed from others at the same time")
]
PlanOption = Annotated[
    Path | None,
    typer.Option("--plan", help="Plan file, instead of one by --planner; --engine then counts for switches alone"),
]


@dataclass(frozen=True)
class TableOptions:
    """Tables of a sparse job beside the dense one."""

    tables: Annotated[
        Path | None,
        typer.Option(
            "--tables", help="File with tables, as `job_tables` makes it: starts the topology's servers of tables"
        ),
    ] = None
    hot: Annotated[
        Path | None, typer.Option("--hot", help="File with the hot map of --tables, whose rows the switch sums")
    ] = None
    hot_rows: Annotated[
        int | None,
        typer.Option(
            "--hot-rows", min=1, help="Number of rows of --tables that the switch sums: those that are touched most"
        ),
    ] = None
    rows_engine: options.RowsEngineOption = "udp"

    def refuse(self, what: str) -> None:
        """Says that something else takes no tables.

        Raises:
            typer.BadParameter: there are some.
        """
        if (self.tables, self.hot, self.hot_rows) != (None, None, None):
            raise typer.BadParameter(f"{what} have no tables; leave --tables and --hot out", param_hint="--tables")

    def in_kernel(self, topology: Topology) -> list[str]:
        """Switches that sum hot rows in the kernel."""
        from wiresum.testbed.tables import lowest_switches

        return lowest_switches(topology) if self.rows_engine == "xdp" else []

    def dense_engine(self, engine: EngineChoice) -> EngineChoice:
        """What sums the dense part: one program runs on a port.

        Raises:
            typer.BadParameter: both parts are to be summed in the kernel.
        """
        if self.rows_engine == "udp" or engine not in {"auto", "xdp"}:
            return engine
        if engine == "xdp":
            problem = "one XDP program runs on a port, so the dense part is summed in user space; give --engine udp"
            raise typer.BadParameter(problem, param_hint="--rows-engine")
        return "udp"

    def served(self, bed: Testbed, mtu_bytes: int) -> TableDaemons | None:
        """The daemons to start, if there are tables.

        Raises:
            typer.BadParameter: there are hot rows of no table, or both a map and a number of them.
        """
        from wiresum.testbed.tables import SparseJob, daemons

        if self.tables is None and self.hot is not None:
            raise typer.BadParameter("a hot map says which rows of --tables are hot; give both", param_hint="--hot")
        if self.hot_rows is not None and (self.tables is None or self.hot is not None):
            raise typer.BadParameter(
                "the switch sums so many rows of --tables, or those of a map; give --tables, and leave --hot out",
                param_hint="--hot-rows",
            )
        if self.tables is None:
            return None
        job = SparseJob.read(self.tables, self.hot, self.hot_rows)
        return daemons(bed, job, mtu_bytes, in_kernel=self.rows_engine == "xdp")


@app.command(epilog="Example: `wiresum testbed run star --workers 4 --rate 500mbit -- python train.py`")
@grouped
def run(
    topology: options.TopologyArgument,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND…", help="Command that runs once at every worker")],
    network: options.ServerOptions,
    lost: options.LossOptions,
    job: options.JobOptions,
    turns: TurnsOptions,
    sparse: TableOptions,
    backend: BackendOption = "wiresum",
    planner: options.PlannerOption = "direct",
    plan: PlanOption = None,
    engine: options.EngineOption = "auto",
    node_threads: options.NodeThreadsOption = None,
    name: NameOption = None,
    loopback: Annotated[
        bool, typer.Option("--loopback", help="Run processes on the loopback interface, without namespaces")
    ] = False,
    serve: Annotated[
        list[str] | None,
        typer.Option("--serve", help="Protocol by which the topology's optical switches are ordered, as sonic-tcp"),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Run a command once at every worker of a topology, or with --jobs at every rank of several jobs, in turns.

    Each worker has RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and what Wiresum needs in its environment, so an ordinary
    training script runs as it is. Output is shown by rank; the first failure ends the run, with its exit code.
    """
    from wiresum.cli.testbed_summary import describe, summarize
    from wiresum.testbed import Testbed
    from wiresum.testbed import run as run_at_workers
    from wiresum.testbed.environment import BACKEND_VARIABLE, SPARSE_JOB_VARIABLE

    there = network.load(topology, lost.loss)
    if turns.jobs is not None:
        sparse.refuse("jobs in turns")
        run = Run(there, command, turns, name, job.mtu, switch_engine(None if engine == "auto" else engine))
        run_in_turns(run, as_json=as_json)
    require_no_jobs(turns)
    engine = sparse.dense_engine(engine)
    made = _plan(there, job, plan, backend, engine, planner, loopback=loopback)
    sink = sys.stderr if as_json else sys.stdout
    with Testbed(
        there,
        made,
        name=name,
        mtu_bytes=job.mtu,
        loopback=loopback or None,
        loss_seed=lost.seed,
        in_kernel=sparse.in_kernel(there),
        node_threads=node_threads,
    ) as bed:
        _announce(bed)
        _serve(bed, serve or [])

        silence = ExitStack()

        def show(rank: int, is_error: bool, line: str) -> None:
            silence.close()
            print(f"[{rank}] {line}", file=sys.stderr if is_error else sink, flush=True)

        with ExitStack() as stack:
            stack.enter_context(silence).enter_context(working(SILENT))
            environment = {BACKEND_VARIABLE: backend}
            if tables := sparse.served(bed, job.mtu):
                environment[SPARSE_JOB_VARIABLE] = str(stack.enter_context(tables).job_file)
            outcome = run_at_workers(bed, command, show, environment)
            silence.close()
            _note_dead(tables.dead() if tables else {})
        counters = _ended(bed.deployment) if made else {}
    if as_json:
        print_json(summarize(bed, backend, outcome, counters))
    else:
        note(describe(bed, outcome))
    raise typer.Exit(outcome.exit_code)


@app.command(epilog="Example: `wiresum testbed up star --workers 2 --backend gloo --name lab`")
@grouped
def up(
    topology: options.TopologyArgument,
    network: options.ServerOptions,
    lost: options.LossOptions,
    backend: BackendOption = "wiresum",
    policy: options.PolicyOption = "pool",
    mtu: options.MtuOption = DEFAULT_MTU_BYTES,
    plan: PlanOption = None,
    engine: options.EngineOption = "auto",
    name: NameOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Build a testbed and leave it up, to look around in it with `ip netns exec`."""
    from wiresum.testbed import Testbed

    there = network.load(topology, lost.loss)
    job = options.JobOptions(policy=policy, mtu=mtu)
    made = _plan(there, job, plan, backend, engine, "direct", loopback=False)
    bed = Testbed(there, made, name=name or there.name, mtu_bytes=mtu, loopback=False, loss_seed=lost.seed)
    bed.up()
    bed.keep()
    if as_json:
        print_json({"name": bed.name, "namespaces": bed.network.namespaces})
    else:
        for node, namespace in bed.network.namespaces.items():
            out().print(f"{node}: ip netns exec {namespace} …")


@app.command(epilog="Example: `wiresum testbed down lab`")
def down(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Names of testbeds, as `list` has them")
    ] = None,
    named: Annotated[
        list[str] | None, typer.Option("--name", help="Name of a testbed, as for `up`; repeatable")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Remove all that no running process holds")] = False,
) -> None:
    """Remove testbeds that were left up, and what killed ones left."""
    from wiresum.testbed import records

    records.remove_leftovers()
    kept = [record.name for record in records.everything() if record.kept]
    wanted = kept if every else [*(names or []), *(named or [])]
    if not wanted and not every:
        raise typer.BadParameter(f"name a testbed or give --all; up are: {', '.join(kept) or 'none'}")
    for name in wanted:
        records.take_down(name)
        note(f"{name} is down")


@app.command("pass", epilog="Example: `wiresum testbed pass veth0`")
def pass_all(
    interfaces: Annotated[list[str], typer.Argument(metavar="INTERFACE…", help="Names of interfaces of this host")],
) -> None:
    """Attach an XDP program that passes everything, as the peer of a veth needs where a node sums in XDP.

    A veth interface without a program drops what its peer sends from XDP. `ip link set dev INTERFACE xdp off` removes
    the program.
    """
    from wiresum.testbed.xdp_pass import attach_here

    attach_here(interfaces)


@app.command("list", epilog="Example: `wiresum testbed list --json`")
def list_testbeds(as_json: options.JsonOption = False) -> None:
    """List the testbeds of this machine."""
    from wiresum.testbed import records

    found = [
        {"name": record.name, "topology": record.topology, "owner": record.owner.pid, "state": _state(record)}
        for record in records.everything()
    ]
    if as_json:
        print_json(found)
        return
    for entry in found:
        out().print(f"{entry['name']}: {entry['topology']}, {entry['state']}")
    if not found:
        note("there are no testbeds")


def _state(record: Record) -> str:
    if record.kept:
        return "up"
    return "running" if record.owner.alive else "left by a killed process"


def _plan(
    network: Topology,
    job: options.JobOptions,
    file: Path | None,
    backend: str,
    engine: EngineChoice,
    planner: str,
    *,
    loopback: bool,
) -> AggregationPlan | None:
    """The plan to run; None for a backend that needs no aggregators."""
    from wiresum.plan.options import PlanOptions
    from wiresum.planners import plan

    if backend != "wiresum":
        return None
    if file:
        return read_plan(file, engine)
    in_user_space = engine == "auto" and job.jumbo
    chosen = "udp" if in_user_space else choose_engine(engine, loopback)
    return plan(network, job.job(), PlanOptions(engine=chosen), planner)


def _ended(deployment: Deployment) -> dict[str, dict[str, Any]]:
    """The last counters of all daemons, after a word about those that have ended before."""
    _note_dead(deployment.dead())
    return deployment.stop()


def _note_dead(daemons: dict[str, str]) -> None:
    for node, words in daemons.items():
        note(f"the daemon at {node} has ended by itself: {words}")


def _serve(bed: Testbed, protocols: list[str]) -> None:
    from wiresum.topology.circuits import optical_switches

    for switch in optical_switches(bed.topology):
        for protocol in protocols:
            address = bed.optical_switch(switch.name).serve(protocol)
            note(f"{switch.name}: wiresum circuits show --driver {address}")


def read_plan(file: Path, engine: EngineChoice) -> AggregationPlan:
    """A plan as it is, but for the engine of its switches if one is asked for."""
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.plan.assignment.wiring import with_engine

    plan = AggregationPlan.read(file)
    return plan if plan.fabric is None or engine == "auto" else with_engine(plan, switch_engine(engine))


def _announce(bed: Testbed) -> None:
    if bed.why_loopback:
        note(f"loopback instead of namespaces ({bed.why_loopback}): {'; '.join(bed.left_out)}")
