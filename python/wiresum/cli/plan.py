"""`wiresum plan`: a topology and a job become a plan file."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from wiresum.cli import options
from wiresum.cli.console import note
from wiresum.cli.options import load_topology, model_parts, place_job
from wiresum.cli.quantities import parse_numbers, parse_size
from wiresum.plan.aggregation_plan import AggregationPlan, Engine
from wiresum.plan.assignment.wiring import with_engine
from wiresum.plan.convergence import Convergence
from wiresum.plan.evaluation import Evaluation
from wiresum.plan.fabric import SwitchEngine, SwitchPolicy
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import parents_of
from wiresum.planners.fabrics import plan_switched
from wiresum.planners.participation import with_rounds
from wiresum.planners.participation.counts import DEFAULT_MOST_MISSED
from wiresum.predict import predict
from wiresum.topology.model import Topology

SwitchChoice = Literal["auto", SwitchPolicy]
"""What switches do with fragments; auto: what the planner's paper has, or suits its trees."""


def plan(
    topology: options.TopologyArgument,
    workers: options.WorkersOption = None,
    rate: options.RateOption = None,
    servers: options.ServersOption = None,
    server_rate: options.ServerRateOption = None,
    colocated: options.ColocatedOption = None,
    scale: options.ScaleOption = None,
    policy: options.PolicyOption = "pool",
    lanes: options.LanesOption = "int32-le",
    codec: options.CodecOption = "block",
    exponents: options.ExponentsOption = "agreed",
    window: options.WindowOption = options.DEFAULT_WINDOW,
    slots: options.SlotsOption = None,
    gradient: options.GradientOption = options.DEFAULT_GRADIENT,
    mtu: options.MtuOption = options.DEFAULT_MTU_BYTES,
    planner: options.PlannerOption = "direct",
    model: Annotated[str | None, typer.Option("--model", help="Sub-models to place: a size, or a model's name")] = None,
    parts: options.PartsOption = None,
    split: options.SplitOption = None,
    group: options.GroupOption = options.NO_GROUP,
    seed: options.PlannerSeedOption = 0,
    tries: options.TriesOption = 1,
    time_limit: options.TimeLimitOption = options.DEFAULT_TIME_LIMIT_S,
    switched: Annotated[
        SwitchChoice | None,
        typer.Option(
            "--switched", help="Switches sum, by this policy (auto: the planner's), over links with addresses"
        ),
    ] = None,
    k: options.KOption = None,
    evaluation: options.EvaluationOption = None,
    convergence: options.ConvergenceOption = None,
    participants: options.ParticipantsOption = None,
    most_missed: options.MostMissedOption = DEFAULT_MOST_MISSED,
    engine: Annotated[
        Engine | None, typer.Option(help="What runs the aggregators [default: xdp; for --switched, udp]")
    ] = None,
    job_id: Annotated[int, typer.Option("--job", help="Number of the job on its aggregators")] = 1,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File [default: standard output]")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say why this plan, and its predicted time")] = False,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the network and its loads, as .png or .svg")] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Place a job on a topology: which node sums what.

    Example: `wiresum plan xagg --policy cache --planner xagg --explain -o plan.json`
    """
    network = load_topology(
        topology, workers=workers, rate=rate, scale=scale, servers=servers, server_rate=server_rate, colocated=colocated
    )
    rounds = Evaluation.read(evaluation) if evaluation else None
    constants = parse_convergence(convergence) if convergence else None
    choices = PlanOptions(
        engine=engine or "xdp",
        k=k,
        evaluation=rounds,
        convergence=constants,
        seed=seed,
        tries=tries,
        time_limit_s=time_limit,
    )
    described: dict[str, Any] = {
        "sub_models": model_parts(model, parts, split, group) if model else None,
        "id": job_id, "policy": policy, "lanes": lanes, "codec": codec, "exponents": exponents, "window": window,
        "slots": slots, "mtu_bytes": mtu,
    }  # fmt: skip
    if switched:
        chosen = None if switched == "auto" else switched
        made = with_engine(switch_job(network, planner, choices, chosen, gradient, described), switch_engine(engine))
    else:
        made = place_job(network, planner, choices, gradient, **described)
    if participants:
        made = with_rounds(made, participants, intervals_of(made, rounds), most_missed)
    if explain:
        note(explanation(network, made, parse_size(gradient)))
    if plot:
        _draw(network, made, parse_size(gradient), plot)
    if output:
        made.write(output)
        note(f"{output}: {len(made.workers)} workers, {len(made.nodes)} aggregators")
    if as_json or not output:
        print(made.to_json(), end="")


def parse_convergence(text: str) -> Convergence:
    """Three numbers: the loss to lose, the gradient's variance, the target.

    Raises:
        typer.BadParameter: they are not three.
    """
    numbers = parse_numbers(text)
    if len(numbers) != len(Convergence.model_fields):
        raise typer.BadParameter(f"{text} is not three numbers: loss to lose, gradient variance, target, as 2.3,4,1")
    gap, variance, target = numbers
    return Convergence(loss_gap=gap, variance=variance, target=target)


def intervals_of(made: AggregationPlan, evaluation: Evaluation | None) -> list[float] | None:
    """Seconds of each worker's gradient, where they were measured."""
    if evaluation is None:
        return None
    return [one.round_seconds for one in evaluation.of([worker.name for worker in made.workers])]


def _draw(network: Topology, made: AggregationPlan, gradient_bytes: int, path: Path) -> None:
    from wiresum.plan.assignment import traffic_of_plan
    from wiresum.plan.assignment.plot import draw

    traffic = traffic_of_plan(network, made, gradient_bytes)
    draw(traffic, f"{made.planner.partition(':')[0]}: {traffic.total_bytes / 1e6:,.0f} MB on links", path)
    note(f"{path}: link loads and sums")


def explanation(network: Topology, made: AggregationPlan, gradient_bytes: int) -> str:
    """The planner's reason, each node's children, and the predicted time of the largest collective."""
    lines = [made.planner]
    for sub_model in (one for one in made.sub_models if one.role == "values"):
        parents = parents_of(made, sub_model)
        for node in sub_model.tree:
            name = made.node(node.node).name
            lines.append(f"{name} sums {', '.join(child for child in parents if parents[child] == name)}")
    found = predict(network, made, gradient_bytes)
    lines.append(
        f"{gradient_bytes / 1e6:g} MB: {found.seconds:.4f} s predicted; bottleneck {found.bottleneck.capacity}"
    )
    return "\n".join(lines)


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


def switch_job(
    network: Topology,
    planner: str,
    choices: PlanOptions,
    policy: SwitchPolicy | None,
    gradient: str,
    described: dict[str, Any],
) -> AggregationPlan:
    """Plans a job whose switches sum, hop by hop."""
    job = Job(gradient_bytes=parse_size(gradient), **described)
    return plan_switched(network.with_addresses(), job, choices, planner, policy)
