"""From the answer of a planner of rows to a plan: dense streams as they were counted, and tables beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.members import NodeChild, WorkerChild
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import Shard, assemble
from wiresum.plan.rows import ROWS_PORT, PlanHot, PlanSparse, RowSwitch, TableServer
from wiresum.plan.stream import PlanLeg, PlanPlace, PlanStream
from wiresum.plan.tables import Tables
from wiresum.plan.tracking import Tracking
from wiresum.planners.tiers.answer import Answer, part_of
from wiresum.planners.tiers.instance import SparseInstance
from wiresum.planners.tiers.methods import gathered_at, merged_at, tiers_at
from wiresum.planners.tiers.rounds import Rounds
from wiresum.planners.tiers.search import Thresholds
from wiresum.predict.forms import packets
from wiresum.predict.sparse import SparseNetwork
from wiresum.sparse.counts import Counts
from wiresum.sparse.spec import parse

if TYPE_CHECKING:
    from wiresum.plan.job import Job
    from wiresum.plan.sparse import SparsePart
    from wiresum.sparse.trace import Trace
    from wiresum.topology.model import Topology

COUNTED_ROUNDS = 2
"""Rounds of a trace that are counted: with eight workers, counts of two rounds differ by a percent."""


LEAST_GAIN = 1.03
"""What a tree of switches must gain over one: it has more parts that can fail, and each has hot rows to keep."""


def sums_in_a_tree(asked: SparseInstance, part: SparsePart) -> bool:
    """Whether rounds are shorter where hot rows are summed wherever their ways meet, and not at the root alone.

    Sums of some workers' rows travel as 64-bit lanes, so a tree pays where several workers beneath a node touch the
    same rows.
    """
    network = asked.network
    root = network.graph.index[_summing(network, part)]
    if not network.tree(root).sums_at:
        return False
    dense = None if part.root is None else root
    places = [asked.counts.place(rows) for rows in (part.replicated_rows, part.replicated_rows + part.summed_rows)]
    one, tree = (Rounds(asked, at(network, root, dense)).seconds(*places) for at in (gathered_at, merged_at))
    return one >= LEAST_GAIN * tree


def plan_with_rows(
    network: SparseNetwork,
    job: Job,
    part: SparsePart,
    *,
    tree: bool = False,
    options: PlanOptions | None = None,
    hot: str | None = None,
    file: Path | str = "hot.json",
    trace: str | None = None,
    tracking: Tracking | None = None,
) -> AggregationPlan:
    """A plan with tables beside dense streams.

    The dense gradient is summed at the answer's root, on the ways that were counted, or in equal shares at the servers
    without one. Hot rows are summed at the root, or in the tree of all nodes that sum on the ways to it.

    Args:
        network: with its servers.
        job: the dense part.
        part: the answer.
        tree: hot rows are summed wherever their ways to the root meet, as `sums_in_a_tree` may advise.
        options: the operator's choices.
        hot: text of the hot map; None where no row is hot.
        file: where it is written.
        trace: whose popularity was counted.
        tracking: how hot rows follow popularity while the job runs.

    Raises:
        PlanError: nobody can sum, a host has no address, or no row is hot that could follow.
    """
    if tracking is not None and hot is None:
        raise PlanError("no row is hot in this plan, so none can follow popularity; leave tracking out")
    topology, graph = network.topology.with_addresses(), network.graph
    summing = [graph.names[node] for node in network.roots()]
    servers_sum = all(name in summing for name in part.servers)
    if not summing:
        raise PlanError(f"topology {topology.name} has no node that sums for all workers; add one")
    root = part.root or (None if servers_sum and hot is None else summing[0])
    roots = part.servers if root is None else [root]
    shards = [Shard(network.parents(graph.index[name]), 1 / len(roots)) for name in roots]
    dense = assemble(part.planner, topology, job, options or PlanOptions(), shards)
    sparse = PlanSparse(
        planner=f"{part.planner}; {part.reason}",
        trace=trace,
        tracking=tracking,
        tables=part.tables,
        servers=[TableServer(name=name, address=address_of(topology, name)) for name in part.servers],
    )
    if hot is not None and root is not None:
        parents = network.parents(graph.index[root])
        if not tree:
            parents = {worker.name: root for worker in dense.workers} | {root: None}
        sparse = sparse.model_copy(update={"hot": _hot(json.loads(hot), Path(file).name)})
        sparse = _with_switches(sparse, dense, topology, parents)
    return AggregationPlan.build(**{**dict(dense), "sparse": sparse})


def counted(
    network: SparseNetwork, trace: Trace, dense_bytes: int = 0, progress: Callable[[str], None] = lambda _: None
) -> SparseInstance:
    """The question to planners of rows: a trace, counted with the network's workers."""
    counts = Counts.of(trace, len(network.workers), COUNTED_ROUNDS, progress=progress)
    return SparseInstance(network, trace.tables.tables, counts, dense_bytes)


def predicted(
    topology: Topology,
    plan: AggregationPlan,
    dense_bytes: int = 0,
    trace: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> SparsePart:
    """What a round of a plan with tables takes, with hot rows summed where the plan has it.

    Args:
        topology: of the plan.
        plan: with tables.
        dense_bytes: float32 bytes of the dense gradient.
        trace: what is counted, instead of the plan's own.
        progress: told which round is drawn.

    Raises:
        PlanError: the plan has no tables, or names no trace, or the topology is another one's.
        TraceError: there is no such trace.
    """
    sparse = plan.sparse
    if sparse is None:
        raise PlanError("the plan has no tables; make one with `wiresum plan --planner tiers`")
    spec = trace or sparse.trace
    if spec is None:
        raise PlanError("the plan names no trace, so nothing tells which rows are touched; give one with --trace")
    network = SparseNetwork(topology, [server.name for server in sparse.servers], packets(sparse.packet_bytes))
    asked = counted(network, parse(spec, tables=Tables(tables=sparse.tables)), dense_bytes, progress)
    names = {node.id: node.name for node in plan.nodes}
    roots = {names[stream.root] for stream in plan.streams if stream.role == "values"}
    root = network.graph.index[roots.pop()] if len(roots) == 1 else None
    method = tiers_at(asked.network, root)
    hot = replicated = 0
    if sparse.hot is not None:
        replicated, hot = sparse.hot.replicated, sparse.hot.replicated + sparse.hot.summed
        at = merged_at if sparse.tree else gathered_at
        method = at(asked.network, network.graph.index[names[sparse.switches[0].node]], root)
    rounds, places = Rounds(asked, method), (asked.counts.place(replicated), asked.counts.place(hot))
    return part_of(asked, "as planned", Answer(rounds, Thresholds(rounds.seconds(*places), *places), root))


def address_of(topology: Topology, name: str) -> str:
    """Where a host receives rows.

    Raises:
        PlanError: it has no address.
    """
    address = topology.node(name).address
    if address is None:
        raise PlanError(f"node {name} has no address; give it one in the topology")
    host = f"[{address}]" if ":" in address else address
    return f"{host}:{ROWS_PORT}"


def _id(plan: AggregationPlan, name: str) -> int:
    return next(node.id for node in plan.nodes if node.name == name)


def _summing(network: SparseNetwork, part: SparsePart) -> str:
    """The node at which sums of hot rows are complete.

    Raises:
        PlanError: there is none.
    """
    roots = network.roots()
    if part.root is None and not roots:
        raise PlanError(f"topology {network.topology.name} has no node that sums for all workers; add one")
    return part.root or network.graph.names[roots[0]]


def _hot(rows: dict[str, Any], file: str) -> PlanHot:
    """What a plan says of a hot map, by its content and its file's name."""
    tiers = [row[-1] for row in rows["rows"]]
    return PlanHot(
        file=file, digest=rows["digest"], version=rows["version"], dim=rows["dim"], positions=rows["positions"],
        replicated=tiers.count("A"), summed=tiers.count("B"),
    )  # fmt: skip


def _with_switches(
    sparse: PlanSparse, dense: AggregationPlan, topology: Topology, parents: dict[str, str | None]
) -> PlanSparse:
    """The part with those who sum its hot rows.

    Args:
        sparse: the part, with a hot map.
        dense: whose nodes sum.
        topology: with their addresses.
        parents: by worker and by node that sums the next node that sums; the root has none.
    """
    positions = 0 if sparse.hot is None else sparse.hot.positions
    ranks = {worker.name: worker.rank for worker in dense.workers}

    def height(name: str) -> int:
        above = parents[name]
        return 0 if above is None else 1 + height(above)

    names = sorted((name for name in parents if name not in ranks), key=height)
    ids = {name: _id(dense, name) for name in names}
    legs = [
        PlanLeg(
            child=WorkerChild(worker=ranks[name]) if name in ranks else NodeChild(node=ids[name]), parent=ids[above]
        )
        for name, above in parents.items()
        if above is not None
    ]
    stream = PlanStream(
        id=1 + max(stream.id for stream in dense.streams), name="hot", role="hot", share=1.0, policy="exclusive",
        window=positions, places=[PlanPlace(node=ids[name], slots=positions) for name in names], legs=legs,
    )  # fmt: skip
    switches = [RowSwitch(node=ids[name], address=address_of(topology, name)) for name in names]
    return sparse.model_copy(update={"switches": switches, "streams": [stream]})
