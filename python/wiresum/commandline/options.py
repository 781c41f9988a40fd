"""Options that several commands share: each is defined once, alone or in a group that knows what it describes.

Nothing here loads NumPy or the models of files before a command asks: help has to be there at once.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from wiresum.commandline import completion
from wiresum.commandline.console import note
from wiresum.commandline.groups import Reading, read
from wiresum.commandline.quantities import parse_fraction, parse_numbers, parse_size
from wiresum.errors import TopologyError
from wiresum.plan.choices import (
    DEFAULT_GRADIENT_BYTES,
    DEFAULT_LOSS_SEED,
    DEFAULT_MOST_MISSED,
    DEFAULT_MTU_BYTES,
    DEFAULT_TIME_LIMIT_S,
    DEFAULT_WINDOW,
    MAX_MISSED,
    MAX_NODE_THREADS,
    MAX_THREADS,
    Engine,
    Exponents,
    Lanes,
    Policy,
)
from wiresum.plan.groups import parse_mesh
from wiresum.plan.models import MODELS
from wiresum.planners import PLANNERS, ROW_PLANNERS
from wiresum.registry import remedy
from wiresum.topology.generators import TOPOLOGIES

if TYPE_CHECKING:
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.plan.evaluation import Evaluation
    from wiresum.plan.job import Job, JobSubModel
    from wiresum.plan.options import PlanOptions
    from wiresum.topology.model import Topology

EngineChoice = Literal["auto", Engine]
"""An `Engine`, or the one that suits the machine."""
DEFAULT_GRADIENT = f"{DEFAULT_GRADIENT_BYTES // 10**6}MB"
NO_GROUP = "none"

ENGINE = typer.Option("--engine", help="Engine of the aggregators; auto: XDP where it works")
EngineOption = Annotated[EngineChoice, ENGINE]
RowsEngineOption = Annotated[
    Literal["udp", "xdp"],
    typer.Option("--rows-engine", help="Engine that sums hot rows at the switch: udp (user space), xdp (the kernel)"),
]
PolicyOption = Annotated[Policy, typer.Option("--policy", help="Slot policy of the values")]
LanesOption = Annotated[
    Lanes,
    typer.Option(
        "--lanes", help="Integers on the wire; 16 bits halve the bytes. auto: as wide as the elements, at servers"
    ),
]
CodecOption = Annotated[str, typer.Option("--codec", help="Conversion of floats to integers: block, or fixed:FACTOR")]
ThreadsOption = Annotated[
    int,
    typer.Option(
        "--threads",
        min=1,
        max=MAX_THREADS,
        help="Threads of each rank that share large tensors, where one cannot keep up with the link",
    ),
]
NodeThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--node-threads",
        min=1,
        max=MAX_NODE_THREADS,
        help="Threads that share the jobs at each node of the engine udp [default: as its daemon chooses]",
    ),
]
WindowOption = Annotated[int, typer.Option("--window", min=1, help="Fragments in flight at each worker")]
MTU = typer.Option("--mtu", help="MTU of the links: bytes of the largest IP packet")
MtuOption = Annotated[int, MTU]
JumboOption = Annotated[
    bool,
    typer.Option("--jumbo", help="Packets as long as the MTU allows, up to 9000 bytes; servers in user space sum them"),
]
PartsOption = Annotated[
    int | None,
    typer.Option("--parts", min=1, help="Number of equal parts [default: a named model's layers; one for a size]"),
]
SplitOption = Annotated[str | None, typer.Option("--split", help="Size above which a layer is split, as 16MB")]
GroupOption = Annotated[
    str, typer.Option("--group", help="Size up to which neighbouring layers are put together, as 1MB")
]
PlannerSeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed for planners that choose at random")]
TriesOption = Annotated[
    int, typer.Option("--tries", min=1, help="Number of seeds that a planner by chance tries; the best answer counts")
]
TimeLimitOption = Annotated[float, typer.Option("--time-limit", help="Seconds after which a planner stops searching")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output")]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", help="File for a report as one page, with pictures inside, as report.html")
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="File for the plan [default: standard output]")
]
PlanArgument = Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file, as `wiresum plan` writes it")]
SecretOption = Annotated[
    Path | None, typer.Option("--secret", help="File with the plan's secret [default: PLAN.secret]")
]
PlotOption = Annotated[Path | None, typer.Option("--plot", help="File for a picture, as .png or .svg")]


@dataclass(frozen=True)
class NetworkOptions:
    """Options of generated topologies that every command takes which reads one."""

    workers: Annotated[
        int | None, typer.Option("--workers", "-n", min=1, help="Number of workers of star or servers [default: 4]")
    ] = None
    rate: Annotated[
        str | None, typer.Option("--rate", help="Rate of each link of star or servers: 500mbit, 1gbit, none")
    ] = None
    scale: Annotated[
        float | None, typer.Option("--scale", help="Factor on the link rates of the topology xagg [default: 0.01]")
    ] = None

    def load(self, name: str, loss: str | None = None) -> Topology:
        """A topology by its name, with what was given of these options."""
        return load_topology(name, loss, **{option: getattr(self, option) for option in self.__dataclass_fields__})


@dataclass(frozen=True)
class ServerOptions(NetworkOptions):
    """The same, and those of the topology `servers`."""

    servers: Annotated[
        int | None, typer.Option("--servers", min=1, help="Number of servers of the topology servers [default: 2]")
    ] = None
    server_rate: Annotated[
        str | None, typer.Option("--server-rate", help="Rate of the servers' links [default: as --rate]")
    ] = None
    colocated: Annotated[
        bool | None, typer.Option("--colocated", help="Run servers on the workers' hosts, over the same links")
    ] = None


TopologyArgument = Annotated[
    str,
    typer.Argument(
        metavar="TOPOLOGY",
        help=f"{', '.join(TOPOLOGIES)}, or a topology file",
        autocompletion=completion.name(TOPOLOGIES, ".json"),
    ),
]
TopologyOption = Annotated[
    str,
    typer.Option(
        "--topology",
        "-t",
        help="Topology of the plan: a name or a file",
        autocompletion=completion.name(TOPOLOGIES, ".json"),
    ),
]


@dataclass(frozen=True)
class LossOptions:
    """Links that lose packets."""

    loss: Annotated[
        str | None,
        typer.Option("--loss", help="Share of packets that every link loses, as 1% or 0.01 [default: the topology's]"),
    ] = None
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed that chooses the packets that lossy links lose")] = (
        DEFAULT_LOSS_SEED
    )


@dataclass(frozen=True)
class JobOptions:
    """The job, but for its model."""

    policy: PolicyOption = "pool"
    lanes: LanesOption = "auto"
    codec: CodecOption = "block"
    exponents: Annotated[
        Exponents,
        typer.Option(
            "--exponents",
            help="Exponents of values: agreed in a round trip before them, or expected from the last ones",
        ),
    ] = "agreed"
    sealed: Annotated[
        bool, typer.Option("--sealed", help="Seal sums: nodes learn nothing of them, and what they change is found")
    ] = False
    proven: Annotated[
        bool, typer.Option("--proven", help="Prove values: who reads packets and forges addresses changes no sum")
    ] = False
    copies: Annotated[
        bool,
        typer.Option(
            "--copies",
            help="Carry copies, too (all_gather, broadcast, gather, scatter), and of sums each rank's part, at servers",
        ),
    ] = False
    copy_servers: Annotated[
        int | None,
        typer.Option(
            "--copy-servers",
            min=1,
            help="Most servers that --copies goes through [default: as many as make a step of FSDP2 quicker]",
        ),
    ] = None
    mesh: Annotated[
        tuple[int, ...] | None,
        typer.Option("--mesh", help="Mesh of the workers, as 2x4: its rows and columns sum by themselves (HSDP)"),
    ] = read(None, Reading(str | None, None, lambda given: given and _mesh(given)))
    groups: Annotated[
        tuple[tuple[int, ...], ...],
        typer.Option("--ranks", help="Ranks of a process group that sums by itself, as 0,2,5; repeatable"),
    ] = read((), Reading(list[str] | None, None, lambda given: tuple(map(_ranks, given or ()))))
    threads: ThreadsOption = 1
    window: WindowOption = DEFAULT_WINDOW
    slots: Annotated[int | None, typer.Option("--slots", help="Slots at each node [default: by policy]")] = None
    gradient: Annotated[
        str, typer.Option("--gradient", help="Size of the largest collective that the policy cache holds, as 64MB")
    ] = DEFAULT_GRADIENT
    mtu: MtuOption = DEFAULT_MTU_BYTES
    jumbo: JumboOption = False

    def described(self, **more: Any) -> dict[str, Any]:
        """Fields of a `Job`."""
        given = asdict(self)
        return {
            "gradient_bytes": self.gradient_bytes,
            "mtu_bytes": given.pop("mtu"),
            "groups": [list(ranks) for ranks in given.pop("groups")] or None,
            **_without(given, "gradient"),
            **more,
        }

    def job(self, **more: Any) -> Job:
        """The job, with what else is known of it."""
        from wiresum.plan.job import Job

        return Job(**self.described(**more))

    @property
    def gradient_bytes(self) -> int:
        """Bytes of the largest collective."""
        return parse_size(self.gradient)


@dataclass(frozen=True)
class ModelParts:
    """How a model is divided."""

    parts: PartsOption = None
    split: SplitOption = None
    group: GroupOption = NO_GROUP

    def of(self, model: str) -> list[JobSubModel]:
        """Sub-models of a named model or of a size.

        Raises:
            typer.BadParameter: it is neither.
            PlanError: it cannot be divided so.
        """
        from wiresum.plan.models import equal_parts, sub_models

        parts = self.parts
        if model in MODELS:
            parameters = MODELS[model]()
            total_bytes = sum(parameter.bytes for parameter in parameters)
            if parts is None:
                limits = (parse_size(self.split) if self.split else None, _group_bytes(self.group))
                return sub_models(parameters, *limits)
        else:
            total_bytes = _model_bytes(model)
            if self.group != NO_GROUP:
                raise typer.BadParameter("a size has no layers to put together; leave it out", param_hint="--group")
        if parts is None:
            parts = -(-total_bytes // parse_size(self.split)) if self.split else 1
        return equal_parts(model if model in MODELS else "model", total_bytes, parts)


@dataclass(frozen=True)
class SearchOptions:
    """Planners that choose at random, or search."""

    seed: PlannerSeedOption = 0
    tries: TriesOption = 1
    time_limit: TimeLimitOption = DEFAULT_TIME_LIMIT_S

    def choices(self, **more: Any) -> PlanOptions:
        """What a planner is told."""
        from wiresum.plan.options import PlanOptions

        return PlanOptions(seed=self.seed, tries=self.tries, time_limit_s=self.time_limit, **more)


PlannerOption = Annotated[
    str,
    typer.Option(
        "--planner",
        help=f"Planner that decides which node sums what: {', '.join([*PLANNERS, *ROW_PLANNERS])}",
        autocompletion=completion.name([*PLANNERS, *ROW_PLANNERS]),
    ),
]


@dataclass(frozen=True)
class PlannerOptions(SearchOptions):
    """The planner, and what it is told."""

    planner: PlannerOption = "auto"
    k: Annotated[
        int | None,
        typer.Option("-k", "--k", min=2, max=64, help="Children of a node in the planner xagg [default: best]"),
    ] = None
    evaluation: Annotated[
        Path | None,
        typer.Option(
            "--evaluation", help="File with times of measured rounds, for the planners xagg, goat-async, ksgd"
        ),
    ] = None
    convergence: Annotated[
        str | None,
        typer.Option("--convergence", help="Loss to lose, gradient variance and target, as 2.3,4,1: goat-async, ksgd"),
    ] = None

    def measured(self) -> Evaluation | None:
        """The evaluation's file, where there is one."""
        from wiresum.plan.evaluation import Evaluation

        return Evaluation.read(self.evaluation) if self.evaluation else None

    def told(self, engine: Engine) -> PlanOptions:
        """What the planner is told."""
        from wiresum.plan.convergence import Convergence

        constants = None
        if self.convergence:
            numbers = parse_numbers(self.convergence)
            if len(numbers) != len(Convergence.model_fields):
                raise typer.BadParameter(
                    f"{self.convergence} is not three numbers: loss to lose, gradient variance, target, as 2.3,4,1"
                )
            constants = Convergence(loss_gap=numbers[0], variance=numbers[1], target=numbers[2])
        return self.choices(engine=engine, k=self.k, evaluation=self.measured(), convergence=constants)


@dataclass(frozen=True)
class RoundOptions:
    """Rounds that do not wait for everyone."""

    participants: Annotated[
        int | None, typer.Option("--participants", min=1, help="Number of workers after which a round goes on")
    ] = None
    most_missed: Annotated[
        int,
        typer.Option("--most-missed", min=1, max=MAX_MISSED, help="Rounds in a row that may miss the same worker"),
    ] = DEFAULT_MOST_MISSED

    def applied(self, plan: AggregationPlan, measured: Evaluation | None) -> AggregationPlan:
        """The plan with these rounds, by each worker's measured times where there are some."""
        if self.participants is None:
            return plan
        from wiresum.planners.participation import with_rounds

        names = [worker.name for worker in plan.workers]
        intervals = None if measured is None else [one.round_seconds for one in measured.of(names)]
        return with_rounds(plan, self.participants, intervals, self.most_missed)


def choose_engine(choice: EngineChoice, loopback: bool) -> Engine:
    """What runs the aggregators: what was asked for, or XDP where it works."""
    from wiresum.testbed import support

    if choice != "auto":
        return choice
    problem = "" if loopback else support.why_no_xdp()
    if problem:
        note(f"gradients are summed in user space: {problem}")
    return "udp" if loopback or problem else "xdp"


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
    from wiresum.commandline.generators import generate, split_spec
    from wiresum.document import is_there
    from wiresum.topology.model import Topology

    name, written = split_spec(text)
    if name in TOPOLOGIES:
        return generate(name, {**written, **options})
    if not is_there(text):
        raise TopologyError(f"there is no topology {text}, and no such file; {remedy(text, TOPOLOGIES)}")
    if options:
        raise TopologyError(f"a topology file takes no --{next(iter(options))}; leave it out (topology {text})")
    return Topology.read(text)


def _model_bytes(text: str) -> int:
    try:
        return parse_size(text)
    except typer.BadParameter:
        problem = f"{text} is neither a size, as 25MB, nor a model; {remedy(text, MODELS)}"
        raise typer.BadParameter(problem, param_hint="--model") from None


def _group_bytes(group: str) -> int:
    return 0 if group == NO_GROUP else parse_size(group)


def _mesh(text: str) -> tuple[int, ...]:
    try:
        return parse_mesh(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--mesh") from None


def _ranks(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d{1,5}(,\d{1,5})+", text):
        raise typer.BadParameter(f"{text} are no ranks; give at least two, as 0,2,5", param_hint="--ranks")
    return tuple(map(int, text.split(",")))


def _without(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in names}
