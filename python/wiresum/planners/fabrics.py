"""Plans of any planner that a network of switches carries out."""

from __future__ import annotations

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan, PlanStream
from wiresum.plan.assignment.traffic import traffic_of_plan
from wiresum.plan.assignment.wiring import as_switched_plan, switchable, switched, with_engine, without_memory
from wiresum.plan.choices import SwitchEngine, SwitchPolicy
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import parents_of
from wiresum.plan.trees import with_tree
from wiresum.planners import SWITCH_PLANNERS, SWITCH_POLICIES, assign, plan
from wiresum.predict.cost import bound_seconds
from wiresum.registry import spelled
from wiresum.topology.model import Topology
from wiresum.wire import POLICIES


def plan_switched(
    topology: Topology,
    job: Job,
    options: PlanOptions,
    planner: str,
    policy: SwitchPolicy | None = None,
    *,
    engine: SwitchEngine = "udp",
) -> AggregationPlan:
    """A plan whose switches sum, hop by hop, over the ways that its planner names.

    A planner of trees, as `joint`, may end at a switch: `pool` has the sums there, if no way passes a switch of another
    part of its tree. Otherwise packets name their switches (`register`), and sums go on to the parameter server, which
    the plan's `value` then counts.

    Args:
        topology: with addresses.
        job: gets a codec and packets that switches can carry.
        options: the operator's choices.
        planner: any.
        policy: of the switches; what suits the plan where absent.
        engine: what runs the switches.

    Raises:
        PlanError: the planner finds no plan, the policy does not suit it, or a host sums below another node.
    """
    if planner in SWITCH_PLANNERS:
        name = spelled(planner)
        answer = assign(topology, job, options, name)
        return as_switched_plan(name, answer, options, policy or SWITCH_POLICIES[name], engine=engine)
    return with_engine(_of_trees(topology, switchable(job), options, planner, policy), engine)


def _of_trees(
    topology: Topology, job: Job, options: PlanOptions, planner: str, policy: SwitchPolicy | None
) -> AggregationPlan:
    choices = options.model_copy(update={"engine": "udp"})
    made = plan(without_memory(topology), job, choices, planner)
    if policy is None:
        if _ends_at_switches(made, topology):
            try:
                return switched(made, topology, job, options, "pool")
            except PlanError:
                pass  # Its ways need addresses.
        policy = "register"
    if POLICIES[policy].needs_server:
        made = _to_server(made, topology, job)
    return switched(made, topology, job, options, policy)


def _root(made: AggregationPlan, stream: PlanStream) -> str:
    return made.node(stream.root).name


def _ends_at_switches(made: AggregationPlan, topology: Topology) -> bool:
    return all(topology.node(_root(made, one)).kind == "switch" for one in made.streams)


def _to_server(made: AggregationPlan, topology: Topology, job: Job) -> AggregationPlan:
    """The plan whose sums at switches go on to the parameter server."""
    ending = [one.tree for one in made.streams if topology.node(_root(made, one)).kind == "switch"]
    if not ending:
        return made
    server = next((node.name for node in topology.nodes if node.kind == "ps"), None)
    if server is None:
        raise PlanError(f"topology {topology.name} has no parameter server, and sums end at one; use the policy pool")
    for tree in ending:
        stream = next((one for one in made.streams if one.tree == tree), None)
        if stream is not None:  # Streams with the same tree change together.
            parents = {**parents_of(made, stream), _root(made, stream): server, server: None}
            made = with_tree(made, topology, tree, parents)
    if made.solution is None:
        return made
    size = sum(part.bytes for part in job.parts)
    value = bound_seconds(traffic_of_plan(topology, made, size))
    bound = made.solution.bound
    changed = {"value": value, "gap": None if bound is None else 1 - bound / value, "status": "feasible"}
    return made.model_copy(update={"solution": made.solution.model_copy(update=changed)})
