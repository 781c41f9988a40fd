"""Plans that follow the servers' load (XAgg §V, discussion): between rounds, and with as few moves as possible."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from wiresum import wire
from wiresum.adjust.bottleneck import relieved_seconds
from wiresum.adjust.exchanges import dense, exchanging
from wiresum.adjust.mending import mend
from wiresum.document import BitsPerSecond, Bytes, Count, Document
from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan, PlanNode, PlanStream, Tree
from wiresum.plan.bandwidth import bandwidths
from wiresum.plan.placement import Parents, parents_of
from wiresum.plan.trees import with_tree
from wiresum.planners.xagg.selection import server, why_not
from wiresum.predict import bound, predict
from wiresum.predict.cost import MAX_FLUID_FLOWS
from wiresum.topology.model import Link, Node, Topology
from wiresum.topology.paths import RoutedTopology

WORTHWHILE_GAIN = 0.10
"""Fraction of the predicted time that a move must save: a new plan costs the workers a new join, and loads waver."""
MAX_REPLACEMENTS = 4
"""Free servers that are tried in the place of one, the best first."""
REFERENCE_BYTES = 100_000_000
"""Gradient for which plans are compared; the ratios hardly depend on it."""


class Load(Document):
    """What a server reports. Absent: as in the topology.

    Attributes:
        memory_used_bytes: memory that other work holds.
        idle_cores: cores without other work.
        bandwidth_bps: bit/s that other work leaves, on each of its links and in each direction.
    """

    memory_used_bytes: Bytes | None = None
    idle_cores: Count | None = None
    bandwidth_bps: BitsPerSecond | None = None


@dataclass(frozen=True)
class Move:
    """A child that got another parent."""

    child: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        return f"{self.child} moves from {self.before} to {self.after}"


@dataclass(frozen=True)
class Adjustment:
    """An adjusted plan.

    Attributes:
        plan: the new plan; the old one itself if nothing moved.
        reasons: for each server that was left, why.
        moves: who got another parent.
    """

    plan: AggregationPlan
    reasons: Sequence[str] = ()
    moves: Sequence[Move] = ()


def adjust(plan: AggregationPlan, topology: Topology, loads: Mapping[str, Load] | None = None) -> Adjustment:
    """Takes out servers that are gone, cannot go on, or slow the job down; everyone else stays where he is.

    What a failed server or link leaves without a parent is hung up again first (`replanning.mending`).
    A server that breaks the memory rule or has no idle core is left. One whose loss makes the predicted all-reduce at
    least 10 % quicker is left, too. Its children go to its parent, or all to a free server, whichever is predicted to
    be quicker; the root can only be replaced. What a server exchanged that is left is shared by the others that do.

    A changed plan has another digest, so all its nodes and workers need it: between two rounds, workers leave their
    group, the aggregators get the new plan, and the workers join again, as a new incarnation of the job.

    Args:
        plan: the plan so far.
        topology: of the plan.
        loads: by server, where they differ from the topology.

    Raises:
        PlanError: a server must be left and none can take its place, or the plan has tables, which do not move.
        TopologyError: a load or the plan names a node that the topology does not have.
    """
    if plan.sparse is not None:
        raise PlanError("the plan has tables, whose rows do not move with a plan; plan again, or adjust a dense plan")
    now = with_loads(topology.with_addresses(), loads or {})
    changed, reasons = mend(dense(plan), now)
    problems = {node.name: _problem(changed, now, node.name) for node in changed.nodes}
    must = [name for name, problem in problems.items() if problem]
    for name in must:  # before times are compared
        changed, reason = _without(changed, now, name, str(problems[name]))
        reasons.append(f"{name} {reason}")
    for name in _suspects(changed, now):
        if name in {node.name for node in changed.nodes}:
            found = _without_if_better(changed, now, name)
            if found is not None:
                changed, reason = found
                reasons.append(f"{name} {reason}")
    changed, left = exchanging(plan, changed, now)
    reasons += left
    if not reasons:
        return Adjustment(plan)
    note = f"{plan.planner}; adjusted: " + "; ".join(reason.split(";")[0] for reason in reasons)
    nodes = [_with_bandwidths(node, now) for node in changed.nodes]
    return Adjustment(changed.model_copy(update={"planner": note, "nodes": nodes}), reasons, _moves(plan, changed))


def with_loads(topology: Topology, loads: Mapping[str, Load]) -> Topology:
    """The topology with what servers report.

    Raises:
        TopologyError: a load of a node that is not there.
    """
    for name in loads:
        topology.node(name)
    nodes = [_loaded_node(node, loads[node.name]) if node.name in loads else node for node in topology.nodes]
    links = topology.links
    for name, load in loads.items():
        if load.bandwidth_bps is not None:
            links = [
                _loaded_link(link, load.bandwidth_bps) if name in (link.source, link.target) else link for link in links
            ]
    return topology.model_copy(update={"nodes": nodes, "links": links})


def _loaded_node(node: Node, load: Load) -> Node:
    fields = load.model_dump(exclude={"bandwidth_bps"}, exclude_none=True)
    return Node.model_validate(node.model_dump() | fields)


def _loaded_link(link: Link, left_bps: float) -> Link:
    there, back = (min(link.bandwidth_from(end) or left_bps, left_bps) for end in (link.source, link.target))
    return link.model_copy(update={"bandwidth_bps": there, "reverse_bandwidth_bps": back})


def _with_bandwidths(node: PlanNode, topology: Topology) -> PlanNode:
    """What other work leaves to a server, so that rates are negotiated within it."""
    left = bandwidths(topology, node.name)
    return node.model_copy(update={"ingress_bps": left.ingress, "egress_bps": left.egress})


@dataclass(frozen=True)
class _Place:
    """A server's place in one tree, and the streams that take this tree."""

    plan: AggregationPlan
    topology: Topology
    tree: Tree
    name: str

    @property
    def parents(self) -> Parents:
        return parents_of(self.plan, self.streams[0])

    @property
    def streams(self) -> list[PlanStream]:
        return [stream for stream in self.plan.streams if stream.tree == self.tree]


def _problem(plan: AggregationPlan, topology: Topology, name: str) -> str | None:
    """Why a server must be left; None if it can go on."""
    ids = [node.id for node in plan.nodes if node.name == name]
    placed = [stream for stream in plan.streams if any(stream.place(each) for each in ids)]
    needed = sum(stream.slot_bytes(plan.job.payload_bytes) for stream in placed)
    return why_not(RoutedTopology(topology), topology.node(name), needed, []) if placed else None


def _without(plan: AggregationPlan, topology: Topology, name: str, problem: str) -> tuple[AggregationPlan, str]:
    """The plan without a server that cannot stay, and why."""
    changed = plan
    for tree in _trees_with(plan, name):
        options = list(_options(_Place(changed, topology, tree, name)))
        if not options:
            raise PlanError(f"{name} {problem}; or add a free server, as none can take its place")
        changed = min(options, key=lambda option: _seconds(option, topology))
    return changed, problem


def _suspects(plan: AggregationPlan, topology: Topology) -> list[str]:
    """Servers without which the rest of the plan might be worth a move."""
    before = _seconds(plan, topology)
    least = relieved_seconds(plan, topology, REFERENCE_BYTES)
    return [name for name, seconds in least.items() if seconds < (1 - WORTHWHILE_GAIN) * before]


def _without_if_better(plan: AggregationPlan, topology: Topology, name: str) -> tuple[AggregationPlan, str] | None:
    """The plan without a server, and why; None if it stays."""
    before = _seconds(plan, topology)
    changed, after = plan, before
    for tree in _trees_with(plan, name):
        for option in _options(_Place(changed, topology, tree, name)):
            # The busiest link rules most out, and is quicker to say than the predicted time.
            if _bound_seconds(option, topology) < min(after, (1 - WORTHWHILE_GAIN) * before):
                seconds = _seconds(option, topology)
                if seconds < min(after, (1 - WORTHWHILE_GAIN) * before):
                    changed, after = option, seconds
    if changed is plan:
        return None
    size = f"{REFERENCE_BYTES / 1e6:g} MB"
    return changed, f"slows an all-reduce of {size} down: {before:.4g} s with it, {after:.4g} s without"


def _trees_with(plan: AggregationPlan, name: str) -> list[Tree]:
    """The distinct trees in which a server sums."""
    return list(dict.fromkeys(stream.tree for stream in plan.streams if name in parents_of(plan, stream)))


def _seconds(plan: AggregationPlan, topology: Topology) -> float:
    """Predicted time, of large plans the busiest link's; infinite with a server that cannot add at all."""
    if not all(topology.node(node.name).available_rate_bps for node in plan.nodes):
        return inf
    edges = sum(len(stream.legs) for stream in plan.streams)
    if 2 * edges > MAX_FLUID_FLOWS:
        return bound(topology, plan, REFERENCE_BYTES)
    return predict(topology, plan, REFERENCE_BYTES).seconds


def _bound_seconds(plan: AggregationPlan, topology: Topology) -> float:
    """What the busiest link needs on its own: quicker to say, and never more than the predicted time."""
    if not all(topology.node(node.name).available_rate_bps for node in plan.nodes):
        return inf
    return bound(topology, plan, REFERENCE_BYTES)


def _options(place: _Place) -> Iterator[AggregationPlan]:
    """Plans without the server: its children at its parent, or at a free server."""
    parents, name = place.parents, place.name
    above = parents[name]
    children = [child for child in parents if parents[child] == name]
    if above is not None:
        siblings = [child for child in parents if parents[child] == above and child != name]
        if len(siblings) + len(children) <= wire.MAX_CONTRIBUTORS:
            yield with_tree(place.plan, place.topology, place.tree, {child: above if parent == name else parent
                                        for child, parent in parents.items() if child != name})  # fmt: skip
    for other in _free_servers(place, children if above is None else [*children, above]):
        renamed = {other if child == name else child: other if parent == name else parent
                   for child, parent in parents.items()}  # fmt: skip
        yield with_tree(place.plan, place.topology, place.tree, renamed)


def _free_servers(place: _Place, neighbours: Sequence[str]) -> list[str]:
    """Servers without a place in the plan that can take this one's, the best first."""
    network = RoutedTopology(place.topology)
    needed = sum(stream.slot_bytes(place.plan.job.payload_bytes) for stream in place.streams)
    taken = {node.name for node in place.plan.nodes}
    free = [
        server(network, node)
        for node in place.topology.summing_nodes
        if node.name not in taken and why_not(network, node, needed, neighbours) is None
    ]
    return [one.name for one in sorted(free, key=lambda one: -one.bandwidth_bps)[:MAX_REPLACEMENTS]]


def _moves(before: AggregationPlan, after: AggregationPlan) -> list[Move]:
    moves: list[Move] = []
    kept = {stream.id: stream for stream in after.streams}
    for old in (stream for stream in before.streams if stream.id in kept):
        was, now = parents_of(before, old), parents_of(after, kept[old.id])
        moves += [Move(name, was.get(name), parent) for name, parent in now.items() if was.get(name) != parent]
    return list(dict.fromkeys(moves))
