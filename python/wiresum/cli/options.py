"""Options that several commands share: each is defined once."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from wiresum.cli.generators import generate, split_spec
from wiresum.cli.quantities import parse_fraction, parse_size
from wiresum.errors import TopologyError
from wiresum.plan.aggregation_plan import MAX_MISSED, AggregationPlan, Engine, Exponents, Lanes, Policy
from wiresum.plan.job import DEFAULT_GRADIENT_BYTES, DEFAULT_MTU_BYTES, DEFAULT_WINDOW, Job, JobSubModel
from wiresum.plan.models import MODELS, equal_parts, sub_models
from wiresum.plan.options import DEFAULT_TIME_LIMIT_S, PlanOptions
from wiresum.planners import PLANNERS
from wiresum.planners import plan as make_plan
from wiresum.topology.generators import TOPOLOGIES
from wiresum.topology.model import Topology

EngineChoice = Literal["auto", Engine]

TopologyArgument = Annotated[
    str, typer.Argument(metavar="TOPOLOGY", help=f"{', '.join(TOPOLOGIES)}, or a topology file")
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", "-n", min=1, help="Workers of star or servers [default: 4]")
]
RateOption = Annotated[
    str | None, typer.Option("--rate", help="Rate of each link of star or servers: 500mbit, 1gbit, none")
]
ServersOption = Annotated[int | None, typer.Option("--servers", min=1, help="Servers of servers [default: 2]")]
ServerRateOption = Annotated[
    str | None, typer.Option("--server-rate", help="Rate of the servers' links [default: as --rate]")
]
ColocatedOption = Annotated[
    bool | None, typer.Option("--colocated", help="Servers run on the workers' hosts and share their links")
]
ScaleOption = Annotated[float | None, typer.Option("--scale", help="Scale of xagg's rates [default: 0.01]")]
LossOption = Annotated[
    str | None,
    typer.Option("--loss", help="Lost on every link, each way, at random: 1% or 0.01 [default: as in the topology]"),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Chooses the packets that lossy links lose")]
PolicyOption = Annotated[Policy, typer.Option("--policy", help="Slot policy of the values")]
LanesOption = Annotated[Lanes, typer.Option("--lanes", help="Integers on the wire; 16 bits halve the bytes")]
ExponentsOption = Annotated[
    Exponents,
    typer.Option(
        "--exponents", help="Of values: agreed before they flow, or as expected, for clusters with late ranks"
    ),
]
CodecOption = Annotated[str, typer.Option("--codec", help="How floats become integers: block, or fixed:FACTOR")]
WindowOption = Annotated[int, typer.Option("--window", min=1, help="Fragments in flight at each worker")]
SlotsOption = Annotated[int | None, typer.Option("--slots", help="Slots at each node [default: by policy]")]
GradientOption = Annotated[str, typer.Option("--gradient", help="Largest collective that `cache` holds, as 64MB")]
MtuOption = Annotated[int, typer.Option("--mtu", help="Bytes of the largest IP packet")]
KOption = Annotated[
    int | None, typer.Option("-k", "--k", min=2, max=64, help="Children of a node in the planner xagg [default: best]")
]
EvaluationOption = Annotated[
    Path | None,
    typer.Option("--evaluation", help="Measured rounds: xagg puts similar workers together, goat_async counts them"),
]
ConvergenceOption = Annotated[
    str | None,
    typer.Option("--convergence", help="For goat_async, ksgd: loss to lose, gradient variance, target, as 2.3,4,1"),
]
ParticipantsOption = Annotated[
    int | None, typer.Option("--participants", min=1, help="Rounds go on without late workers, with as many as this")
]
MostMissedOption = Annotated[
    int, typer.Option("--most-missed", min=1, max=MAX_MISSED, help="Rounds in a row without the same worker")
]
PlannerOption = Annotated[str, typer.Option("--planner", help=f"One of: {', '.join(PLANNERS)}")]
ModelOption = Annotated[
    str, typer.Option("--model", help=f"What is trained: a size, as 221MB, or one of {', '.join(MODELS)}")
]
PartsOption = Annotated[
    int | None, typer.Option("--parts", min=1, help="Equal sub-models [default: a named model's layers, a size as one]")
]
SplitOption = Annotated[str | None, typer.Option("--split", help="Layers above this are split, as 16MB")]
GroupOption = Annotated[str, typer.Option("--group", help="Neighbouring layers up to this are one, as 1MB")]
PlannerSeedOption = Annotated[int, typer.Option("--seed", min=0, help="Of planners that choose at random")]
TriesOption = Annotated[int, typer.Option("--tries", min=1, help="Seeds that these try; the best counts")]
TimeLimitOption = Annotated[float, typer.Option("--time-limit", help="Seconds of a planner that searches")]
JsonOption = Annotated[bool, typer.Option("--json", help="For machines: one JSON object on standard output")]

DEFAULT_GRADIENT = f"{DEFAULT_GRADIENT_BYTES // 10**6}MB"
NO_GROUP = "none"
__all__ = ["DEFAULT_MTU_BYTES", "DEFAULT_TIME_LIMIT_S", "DEFAULT_WINDOW"]


def load_topology(name: str, loss: str | None = None, **given: Any) -> Topology:
    """A generated topology by its name, or one from a file.

    Args:
        name: of a generator, alone or with options as `fat-tree:k=8,seed=1`, or path of a file.
        loss: on every link, instead of the topology's own.
        given: the generator's options; None stands for its default.

    Raises:
        TopologyError: no such name or file, or an option that it does not take.
    """
    made = _make_topology(name, {key: value for key, value in given.items() if value is not None})
    return made if loss is None else made.with_loss(parse_fraction(loss))


def _make_topology(text: str, options: dict[str, Any]) -> Topology:
    name, written = split_spec(text)
    if name in TOPOLOGIES:
        return generate(name, {**written, **options})
    if options:
        raise TopologyError(f"a topology file takes no --{next(iter(options))}; leave it out (topology {text})")
    if not Path(text).exists():
        raise TopologyError(f"there is no topology {text}; give a file, or one of {', '.join(TOPOLOGIES)}")
    return Topology.read(text)


def model_parts(model: str, parts: int | None, split: str | None, group: str) -> list[JobSubModel]:
    """Sub-models of a named model or of a size.

    Raises:
        typer.BadParameter: it is neither.
        PlanError: it cannot be divided so.
    """
    if model in MODELS:
        parameters = MODELS[model]()
        total_bytes = sum(parameter.bytes for parameter in parameters)
        if parts is None:
            limits = (parse_size(split) if split else None, 0 if group == NO_GROUP else parse_size(group))
            return sub_models(parameters, *limits)
    else:
        total_bytes = parse_size(model)
    if parts is None:
        parts = -(-total_bytes // parse_size(split)) if split else 1
    return equal_parts(model if model in MODELS else "model", total_bytes, parts)


def place_job(topology: Topology, planner: str, choices: PlanOptions, gradient: str, **job: Any) -> AggregationPlan:
    """Plans a job that was described on the command line."""
    return make_plan(topology, Job(gradient_bytes=parse_size(gradient), **job), choices, planner)
