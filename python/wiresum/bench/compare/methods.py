"""The methods that `wiresum bench compare` puts beside each other: one entry each in `METHODS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wiresum.bench import late
from wiresum.bench.baselines import Baseline
from wiresum.bench.baselines.ps import PS
from wiresum.bench.baselines.sharded_ps import SHARDED_PS
from wiresum.bench.compare.command import FLOAT32_BYTES
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import Engine, Policy
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.predict import predict, predict_ring
from wiresum.testbed import Testbed, run_or_fail
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Topology

Bound = Callable[[int, Mapping[str, float]], float]
"""Least seconds for so many bytes of float32 when workers start at these times."""
Sample = tuple[float, float]
"""Seconds from the first worker's start to the last one's end, and the largest deviation from Gloo's sums."""
Turn = Callable[[Testbed, Sequence[int], Sequence[float]], list[Sample]]
"""One turn on a testbed that is up: every number of values once, with the ranks' starts in seconds."""
SWITCH_ADDING_BPS = 8e9
"""Rate of the switch that sums in place of a programmable one: more than all links of the test bed at 1:100."""
SWITCH_WINDOW = 256
"""Fragments that a worker may have at the switch at once; SwitchML's pool has 128 to 512 slots."""


@dataclass(frozen=True)
class Setting:
    """What all methods are given.

    Attributes:
        scale: of the test bed's rates.
        engine: what sums, where a method leaves it open.
        gradient_bytes: of the largest model, as float32.
    """

    scale: float
    engine: Engine
    gradient_bytes: int


@dataclass(frozen=True)
class Case:
    """A method on its network.

    Attributes:
        topology: the links.
        plan: what aggregators do; None where there are none.
        turn: measures it.
        bound: no run is faster.
    """

    topology: Topology
    plan: AggregationPlan | None
    turn: Turn
    bound: Bound


@dataclass(frozen=True)
class Method:
    """A way to sum gradients.

    Attributes:
        what: for people.
        prepare: puts it on the test bed.
    """

    what: str
    prepare: Callable[[Setting], Case]


def summed(
    planner: str, policy: Policy, engine: Engine | None = None, topology: Callable[[float], Topology] = xagg
) -> Callable[[Setting], Case]:
    """A method that sums in the network.

    Args:
        planner: decides the trees.
        policy: of the slots. With `cache`, workers send before the others have begun, with the exponents that they
            expect; with `pool` they agree first, as a full pool would make them wait anyway.
        engine: the setting's where absent.
        topology: the test bed at a scale.
    """

    def prepare(setting: Setting) -> Case:
        network = topology(setting.scale)
        early = policy == "cache"
        job = Job(
            policy=policy,
            gradient_bytes=setting.gradient_bytes,
            exponents="expected" if early else "agreed",
            window=Job().window if early else SWITCH_WINDOW,
        )
        made = plan(network, job, PlanOptions(engine=engine or setting.engine), planner)

        def bound(gradient_bytes: int, starts: Mapping[str, float]) -> float:
            return predict(network, made, gradient_bytes, starts).seconds

        return Case(network, made, through("wiresum"), bound)

    return prepare


def with_summing_switch(scale: float) -> Topology:
    """The test bed with its switch in place of the servers: every worker is its child."""
    topology = xagg(scale)
    nodes = [
        node.model_copy(update={"sums_at": None, "aggregation_rate_bps": SWITCH_ADDING_BPS})
        if node.kind == "switch"
        else node.model_copy(update={"sums_at": None})
        for node in topology.nodes
    ]
    return Topology(name="xagg-switch", nodes=nodes, links=topology.links)


def ring(setting: Setting) -> Case:
    """Gloo's ring over the workers alone."""
    network = xagg(setting.scale)

    def bound(gradient_bytes: int, starts: Mapping[str, float]) -> float:
        return predict_ring(network, gradient_bytes, starts=starts).seconds

    return Case(network, None, through("gloo"), bound)


def served(baseline: Baseline) -> Callable[[Setting], Case]:
    """A method whose servers take gradients and give sums back over TCP."""

    def prepare(setting: Setting) -> Case:
        network = xagg(setting.scale)

        def turn(bed: Testbed, elements: Sequence[int], starts_s: Sequence[float]) -> list[Sample]:
            runs = [baseline.run(bed, count, 1, starts_s)[0] for count in elements]
            return [(run.seconds, run.largest_deviation) for run in runs]

        def bound(gradient_bytes: int, starts: Mapping[str, float]) -> float:
            # A late worker may send while the others wait; all that is certain is that it starts late.
            return max(baseline.bound_s(network, gradient_bytes // FLOAT32_BYTES), max(starts.values(), default=0.0))

        return Case(network, None, turn, bound)

    return prepare


def through(backend: str) -> Turn:
    """A turn through a backend of torch.distributed, one process per worker."""

    def turn(bed: Testbed, elements: Sequence[int], starts_s: Sequence[float]) -> list[Sample]:
        output = bed.folder / "compare.json"
        task = late.Task(backend, list(elements), list(starts_s), 1, str(output))
        run_or_fail(bed, task.command(), backend)
        return [(one.seconds[0], one.deviation) for one in late.read(output)]

    return turn


METHODS: dict[str, Method] = {
    "xagg": Method("XAgg: the paper's tree of servers, cache", summed("direct", "cache")),
    "k-ary": Method("XAgg's management: a k-ary tree of its own choice, cache", summed("xagg", "cache")),
    "forest": Method("several trees, each with a share of the gradient, cache", summed("forest", "cache")),
    "tcp-agg": Method("TCP-Agg: the paper's tree over kernel TCP, cache", summed("direct", "cache", "tcp")),
    "pool": Method("few slots, the paper's tree of servers", summed("direct", "pool")),
    "switch": Method(
        "few slots at a switch that sums (as SwitchML)", summed("direct", "pool", topology=with_summing_switch)
    ),
    "gloo": Method("ring of the workers", ring),
    "ps": Method("a parameter server (PS alone)", served(PS)),
    "sharded-ps": Method("a third of the gradient at each of S1, S2 and PS (as BytePS)", served(SHARDED_PS)),
}
"""By the name that a command line takes, in the order of the table."""
