"""`wiresum plan`: a topology and a job become a plan file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from wiresum.cli.rows import RowOptions, plan_rows
from wiresum.commandline import options
from wiresum.commandline.console import note
from wiresum.commandline.groups import given, grouped, present, refuse
from wiresum.commandline.progress import working
from wiresum.plan.choices import Engine, SwitchEngine, SwitchPolicy
from wiresum.planners import ROW_PLANNERS

if TYPE_CHECKING:
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.plan.job import Job
    from wiresum.plan.options import PlanOptions
    from wiresum.topology.model import Topology

SwitchChoice = Literal["auto", SwitchPolicy]
"""What switches do with fragments; auto: what the planner's paper has, or suits its trees."""


@grouped
def plan(
    topology: options.TopologyArgument,
    network: options.ServerOptions,
    job: options.JobOptions,
    planner: options.PlannerOptions,
    division: options.ModelParts,
    rounds: options.RoundOptions,
    rows: RowOptions,
    model: Annotated[
        str | None, typer.Option("--model", help="Model whose parts are placed: a size, or a model's name")
    ] = None,
    switched: Annotated[
        SwitchChoice | None,
        typer.Option(
            "--switched",
            metavar="POLICY",
            help=f"Make a plan for summing switches, with this slot policy: {', '.join(get_args(SwitchPolicy))}, "
            "or auto for the planner's choice",
        ),
    ] = None,
    circuits: Annotated[
        bool,
        typer.Option(
            "--circuits", help="Choose the circuits of optical switches, too, in `joint`; the file is a schedule then"
        ),
    ] = False,
    engine: Annotated[
        Engine | None,
        typer.Option(help="Engine of the aggregators [default: xdp; with --switched or --jumbo: udp]"),
    ] = None,
    job_id: Annotated[int, typer.Option("--job", help="Number of the job on its aggregators")] = 1,
    output: options.OutputOption = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Explain the choice, and predict the time of an all-reduce")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="File for a picture of the network and its loads, as .png or .svg")
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Place a job on a topology: which node sums what.

    Exit code 4: the plan is written, but a ring without Wiresum is predicted to be quicker.

    Example: `wiresum plan xagg --policy cache --planner xagg --explain -o plan.json`
    """
    from wiresum.planners import plan as make_plan

    there = network.load(topology)
    if planner.planner in ROW_PLANNERS:
        unheeded = [name for group in (planner, division, rounds) for name in given(group) if name != "--planner"]
        unheeded += present({"--switched": switched, "--explain": explain, "--plot": plot})
        refuse(unheeded, f"the planner {planner.planner} places rows and does not heed it; leave it out")
        dense_bytes = sum(part.bytes for part in division.of(model)) if model else 0
        dense, choices = job.job(id=job_id), planner.told(engine or "xdp")
        plan_rows(planner.planner, there, rows, dense, choices, dense_bytes, output, as_json=as_json)
        return
    refuse(given(rows), f"the planner {planner.planner} places no rows; choose {' or '.join(ROW_PLANNERS)}")
    choices = planner.told(engine or ("udp" if job.jumbo else "xdp"))
    asked = job.job(id=job_id, sub_models=division.of(model) if model else None)
    if circuits:
        refuse(present({"--explain": explain, "--plot": plot}), "schedules have none; plan over their network")
        _plan_circuits(there, asked, choices, planner.planner, switched, output)
        return
    if switched:
        made = _plan_switched(there, asked, choices, planner.planner, switched, switch_engine(engine))
    else:
        with working(f"planner {planner.planner}"):
            made = make_plan(there, asked, choices, planner.planner)
    made = rounds.applied(made, choices.evaluation)
    if plot:
        _draw(there, made, job.gradient_bytes, plot)
    if output:
        made.write(output)
        fits = "" if engine == "tcp" else f"; links need an MTU of {asked.mtu_bytes} (--mtu)"
        note(f"{output}: {_counted(len(made.workers), 'worker')}, {_counted(len(made.nodes), 'aggregator')}{fits}")
    if as_json or not output:
        print(made.without_secret().to_json(), end="", flush=True)
    if explain:  # After the plan, which is longer than a screen.
        note(explanation(there, made, job.gradient_bytes))
    if not output:
        note("This plan has no secret. `-o FILE` writes the plan to FILE, and a secret to FILE.secret")
    if any(stream.is_exchange for stream in made.streams):
        _warn_of_slow_copies(there, asked, made)
    if planner.planner == "auto":
        _require_worthwhile(there, asked, made)


def _plan_switched(
    topology: Topology, job: Job, choices: PlanOptions, planner: str, switched: SwitchChoice, engine: SwitchEngine
) -> AggregationPlan:
    """A plan for summing switches; what it takes to make one is imported here alone."""
    from wiresum.plan.assignment.wiring import with_engine
    from wiresum.planners.fabrics import plan_switched

    policy = None if switched == "auto" else switched
    with working(f"planner {planner}"):
        return with_engine(plan_switched(topology.with_addresses(), job, choices, planner, policy), engine)


def _warn_of_slow_copies(network: Topology, job: Job, made: AggregationPlan) -> None:
    from wiresum.planners.auto import slow_copies

    sentence = slow_copies(network, job, made)
    if sentence:
        note(sentence)


def _require_worthwhile(network: Topology, job: Job, made: AggregationPlan) -> None:
    """Says so where a ring would be quicker.

    Raises:
        NotWorthwhileError: it would.
    """
    from wiresum.errors import NotWorthwhileError
    from wiresum.planners.auto import quicker_ring_s
    from wiresum.predict.cost import cost_of_plan

    size = sum(part.bytes for part in job.parts)
    cost = cost_of_plan(network, made, size)
    ring_s = quicker_ring_s(network, job, cost.seconds)
    if ring_s is not None:
        raise NotWorthwhileError(
            f"a ring over the same links, as Gloo's or NCCL's, is predicted to take {ring_s:.4g} s "
            f"for {size / 1e6:g} MB, less than any plan; train without Wiresum, or add nodes that sum"
        )


def _plan_circuits(
    topology: Topology,
    job: Job,
    choices: PlanOptions,
    planner: str,
    switched: SwitchChoice | None,
    output: Path | None,
) -> None:
    """Writes the schedule of one interval that has a job's circuits and its plan over them."""
    from wiresum.planners.fabrics import plan_switched
    from wiresum.planners.joint.circuits import PLANNER, as_schedule, over_circuits
    from wiresum.planners.joint.planner import joint

    refuse([] if planner == PLANNER else ["--circuits"], f"only `--planner {PLANNER}` chooses circuits")
    with working("circuits for the job"):
        found = over_circuits(topology, job, choices)
    network = found.network.with_addresses()
    if switched:
        made = plan_switched(network, job, choices, planner, None if switched == "auto" else switched)
    else:
        made = joint(network, job, choices)
    schedule = as_schedule(found, made)
    note(f"{len(found.circuits)} circuits; {found.rate_bps / 1e6:.4g} of at most {found.bound_bps / 1e6:.4g} Mbit/s")
    if output:
        schedule.write(output)
    else:
        print(schedule.with_secrets(None).to_json(), end="")


def switch_engine(engine: Engine | None) -> SwitchEngine:
    """What can run switches.

    Raises:
        typer.BadParameter: servers alone run on it.
    """
    if engine in (None, "udp"):
        return "udp"
    if engine == "xdp":
        return "xdp"
    raise typer.BadParameter(f"--engine {engine}: switches run in the kernel or in user space; choose xdp or udp")


MOST_SUMS = 12
"""Nodes whose children `--explain` lists."""
MOST_CHILDREN = 6
"""Children that it names; of more, their number."""


def explanation(network: Topology, made: AggregationPlan, gradient_bytes: int) -> str:
    """The planner's reason, each node's children, and the predicted time of the largest collective."""
    from wiresum.plan.placement import parents_of
    from wiresum.predict import predict

    sums = []
    for stream in (one for one in made.streams if one.role == "values"):
        parents = parents_of(made, stream)
        for name in dict.fromkeys(parent for parent in parents.values() if parent is not None):
            sums.append(f"{name} sums {_children([child for child in parents if parents[child] == name])}")
    more = len(sums) - MOST_SUMS
    if more > 0:
        sums[MOST_SUMS:] = [f"and {more} more sums; `wiresum explain` lists those of a plan's file"]
    found = predict(network, made, gradient_bytes)
    time = f"{gradient_bytes / 1e6:g} MB: {found.seconds:.4f} s predicted; bottleneck {found.bottleneck.capacity}"
    return "\n".join([made.planner, *sums, time])


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _children(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= MOST_CHILDREN else f"{len(names)} from {names[0]} to {names[-1]}"


def _draw(network: Topology, made: AggregationPlan, gradient_bytes: int, path: Path) -> None:
    from wiresum.plan.assignment import traffic_of_plan
    from wiresum.plan.assignment.plot import draw

    traffic = traffic_of_plan(network, made, gradient_bytes)
    draw(traffic, f"{made.planner.partition(':')[0]}: {traffic.total_bytes / 1e6:,.0f} MB on links", path)
    note(f"{path}: link loads and sums")
