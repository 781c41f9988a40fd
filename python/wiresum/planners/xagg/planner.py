"""XAgg's trees: similar workers together, below the servers with the most to spare."""

from dataclasses import dataclass

from wiresum import wire
from wiresum.errors import NotWorthwhileError, PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.evaluation import WORTHWHILE_SHARE, communication_share
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import Shard, assemble, participants
from wiresum.planners.xagg.ktree import k_tree
from wiresum.planners.xagg.selection import Server, candidates, choose_root
from wiresum.predict import bound_tree, predict_tree
from wiresum.topology.model import Node, Topology
from wiresum.topology.paths import RoutedTopology

SAME_TIME = 1e-9
"""Relative; predictions that differ by less are equal, and the tree with fewer servers is taken."""


@dataclass(frozen=True)
class Candidate:
    """A tree that was considered."""

    k: int
    parents: dict[str, str | None]

    @property
    def servers(self) -> int:
        """Servers that it uses, the root included."""
        return len({parent for parent in self.parents.values() if parent is not None})


def xagg(topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    """A k-ary tree over the best servers, with similar workers side by side.

    Workers are sorted by the time of a measured round (`options.evaluation`), else by the time that their links need
    for the gradient. Servers are chosen by idle bandwidth, then cores, then memory; k by the predicted time of the
    all-reduce over all k from 2 to 64, unless `options.k` gives it. The root is the parameter server.

    Takes one fluid prediction for each k whose busiest link does not rule it out.

    Source: XAgg (IEEE/ACM Transactions on Networking, 2023), §V. Departures: the time of an all-reduce decides about k
    (the paper: 2 to 5 by the number of servers), and measured rates stand for 10 Gbit/s per core.

    Raises:
        NotWorthwhileError: communication is under 10 % of a measured round.
        PlanError: no server can sum, workers are cut off, or a node would have more than 64 children.

    Example:
        >>> from wiresum.topology.generators.xagg import xagg as testbed
        >>> made = xagg(testbed(), Job(), PlanOptions(k=3))
        >>> [node.name for node in made.nodes]
        ['PS', 'S1', 'S2']
    """
    workers = participants(topology, job)
    order = _by_round_time(topology, job, options, workers)
    servers = candidates(topology, job, workers)
    root = choose_root(topology, servers)
    trees = _trees(order, servers, root, options.k)
    best, seconds = _fastest(topology, job, trees)
    note = f"xagg: k = {best.k}, {_how(options, trees)}, {seconds:.4g} s predicted for {job.gradient_bytes / 1e6:g} MB"
    return assemble(note, topology, job, options, [Shard(best.parents)])


def _how(options: PlanOptions, trees: list[Candidate]) -> str:
    if options.k is not None:
        return "as given"
    return f"the fastest of {len(trees)} trees" if len(trees) > 1 else "as every k gives the same tree"


def _by_round_time(topology: Topology, job: Job, options: PlanOptions, workers: list[Node]) -> list[str]:
    """Names, the quickest round first, in rank order among equals."""
    names = [worker.name for worker in workers]
    if options.evaluation is None:
        network = RoutedTopology(topology)
        return sorted(names, key=lambda name: -network.egress_bps(name))
    rounds = options.evaluation.of(names)
    share = communication_share(rounds)
    if share < WORTHWHILE_SHARE:
        raise NotWorthwhileError(
            f"communication is {share:.1%} of a round, under {WORTHWHILE_SHARE:.0%}: summing in the network would gain "
            "less than it costs; train with the backend `gloo`, or evaluate again when the model or the network changes"
        )
    return [one.name for one in sorted(rounds, key=lambda one: one.round_seconds)]


def _trees(order: list[str], servers: list[Server], root: Server, k: int | None) -> list[Candidate]:
    """The distinct trees of all k, or of the one that is given, within the fan-in of a node."""
    rest = [server for server in servers if server is not root]
    widest = max(2, min(wire.MAX_CONTRIBUTORS, len(order)))
    found: dict[str, Candidate] = {}
    for each in [k] if k is not None else range(2, widest + 1):
        tree = Candidate(each, k_tree(order, rest, root.name, each))
        if _fan_in(tree) <= wire.MAX_CONTRIBUTORS:
            found.setdefault(repr(tree.parents), tree)
    if not found:
        raise PlanError(
            f"{len(order)} workers below {len(servers)} servers leave a node with more than {wire.MAX_CONTRIBUTORS} "
            "children; add aggregators" + (" or raise --k" if k is not None else "")
        )
    return list(found.values())


def _fan_in(tree: Candidate) -> int:
    parents = list(tree.parents.values())
    return max(parents.count(parent) for parent in set(parents) - {None})


def _fastest(topology: Topology, job: Job, trees: list[Candidate]) -> tuple[Candidate, float]:
    """The tree with the least predicted time; of equals that with fewer servers, then the smaller k."""
    bounds = {tree.k: bound_tree(topology, tree.parents, job.gradient_bytes) for tree in trees}
    best, best_seconds = trees[0], float("inf")
    for tree in sorted(trees, key=lambda tree: (bounds[tree.k], tree.servers, tree.k)):
        if bounds[tree.k] > best_seconds * (1 + SAME_TIME):
            break
        seconds = predict_tree(topology, tree.parents, job.gradient_bytes, policy=job.policy).seconds
        same = abs(seconds - best_seconds) <= SAME_TIME * seconds
        if (same and (tree.servers, tree.k) < (best.servers, best.k)) or (not same and seconds < best_seconds):
            best, best_seconds = tree, seconds
    return best, best_seconds
