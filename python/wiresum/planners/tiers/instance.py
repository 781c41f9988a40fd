"""The question: what is counted of a trace, on a network with servers, with limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wiresum.errors import PlanError
from wiresum.plan.tables import Table
from wiresum.predict.sparse import SparseNetwork
from wiresum.sparse.counts import Counts
from wiresum.topology.model import Topology

SLOT_VALUE_BYTES, SLOT_BYTES = 8, 8
"""Memory of a hot row at a node that sums: float32 values as 64-bit fixed point, and the counts of its contributors."""
FLOAT_BYTES = 4
ZEBRA_MEMORY_SHARE, ZEBRA_SHARE = 0.05, 0.5
"""Principle 1's c, “0.05 ∼ 0.1”, and p, which the paper leaves open: half of the updates."""
ZEBRA_MEMORY_BYTES = 20 * 10**6
"""On the chip of the paper's switch."""


@dataclass(frozen=True, eq=False)
class SparseInstance:
    """What the planners of rows are asked.

    Attributes:
        network: with its servers.
        tables: of the model.
        counts: of its trace, with as many workers.
        dense_bytes: float32 bytes of the dense gradient, which is summed in every round.
        replicas: most rows that a worker can keep, for lack of memory; unlimited where absent.
        memory_share: of a node's memory that hot rows may have under `zebra` (c).
        wanted_share: of the updates that the hot rows are to get under `zebra` (p).
    """

    network: SparseNetwork
    tables: Sequence[Table]
    counts: Counts
    dense_bytes: int = 0
    replicas: int | None = None
    memory_share: float = ZEBRA_MEMORY_SHARE
    wanted_share: float = ZEBRA_SHARE

    def __post_init__(self) -> None:
        workers = len(self.network.workers)
        if workers != self.counts.workers:
            raise PlanError(f"the trace is counted for {self.counts.workers} workers, the topology has {workers}")
        object.__setattr__(self, "network", self.network.of(self.counts))

    @property
    def hot_row_bytes(self) -> int:
        """Bytes of the longest row where it is hot: float32 there, whatever the table's type."""
        return FLOAT_BYTES * max(table.dimension for table in self.tables)

    def hot_rows_limit(self, nodes: set[int]) -> int:
        """Most rows that are hot at all of these nodes, by their memory."""
        if not nodes:
            return self.counts.rows
        free_bytes = min(float(self.network.graph.memory_bytes[node]) for node in nodes)
        row_bytes = self.hot_row_bytes // FLOAT_BYTES * SLOT_VALUE_BYTES + SLOT_BYTES
        return int(min(free_bytes, self.counts.rows * row_bytes) // row_bytes)


def servers_of(topology: Topology, wanted: int | None = None, *, beside: bool = False) -> list[str]:
    """The nodes that keep tables.

    Args:
        topology: with its servers.
        wanted: how many of them; all where absent.
        beside: a shard beside every worker instead, or beside the first `wanted`.

    Raises:
        PlanError: there are fewer, or none.
    """
    found = [
        node.name for node in topology.nodes if (node.kind == "worker" if beside else node.kind in {"ps", "aggregator"})
    ]
    if not found or (wanted or 1) > len(found) or wanted == 0:
        raise PlanError(
            f"servers: topology {topology.name} has {len(found)}, not {wanted or 'one'}; "
            "add nodes of the kind `ps`, or keep shards beside workers"
        )
    return found[:wanted]
