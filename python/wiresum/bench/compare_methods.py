"""The methods that `wiresum bench compare` puts beside each other: one entry each in `METHODS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wiresum.plan import AggregationPlan, Job, PlanOptions, Topology, plan, xagg
from wiresum.plan.aggregation_plan import Engine, Policy
from wiresum.plan.predict import predict, predict_ring

Bound = Callable[[int, Mapping[str, float]], float]
"""Least seconds for so many bytes of float32 when workers start at these times."""
SWITCH_ADDING_BPS = 8e9
"""Of the switch that sums in place of a programmable one: more than all links of the test bed at 1:100 together."""
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
        backend: of torch.distributed.
        bound: what the fluid model says.
    """

    topology: Topology
    plan: AggregationPlan | None
    backend: str
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

        return Case(network, made, "wiresum", bound)

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

    return Case(network, None, "gloo", bound)


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
}
"""By the name that a command line takes, in the order of the table."""
