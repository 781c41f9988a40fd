"""What is compared: the tiers, and the flows of others on the same network with as many servers."""

from __future__ import annotations

from dataclasses import dataclass

from wiresum.planners.tiers.instance import SparseInstance
from wiresum.planners.tiers.rounds import Method, Rounds
from wiresum.predict.sparse import SparseNetwork
from wiresum.sparse.profile import HOT_ROWS


@dataclass(frozen=True)
class Flows:
    """Seconds of a round by other methods.

    Attributes:
        push_pull: no sums, keys of 8 bytes, as ps-lite.
        direct: no sums, this product's keys.
        zebra: Zebra's flow with 30,000 hot rows.
        sums: sums of all rows on their way, pulled.
    """

    push_pull: float
    direct: float
    zebra: float
    sums: float


def flows(instance: SparseInstance) -> Flows:
    """How long the others take; the dense gradient goes to the servers, too."""
    rival, paper = Rounds(instance, push_pull(instance.network)), Rounds(instance, zebra_flow(instance.network))
    ours = Rounds(instance, tiers_at(instance.network, None))
    hot, all_rows = instance.counts.place(HOT_ROWS), ours.places
    return Flows(rival.seconds(0, 0), ours.seconds(0, 0), paper.seconds(0, hot), ours.seconds(0, all_rows))


def tiers_at(network: SparseNetwork, root: int | None) -> Method:
    """The three tiers, with replicated rows and the dense gradient summed at a root; without one none is replicated."""
    summed, direct = network.summed(), network.direct()
    replicated = summed if root is None else network.replicated(root)
    return Method(replicated, summed, direct, network.dense(root))


def push_pull(network: SparseNetwork) -> Method:
    """Every row goes straight to its server, with keys as long as ps-lite's."""
    direct = network.rival.direct()
    return Method(direct, direct, direct, network.rival.dense(None))


def gathered_at(network: SparseNetwork, node: int, root: int | None) -> Method:
    """The three tiers as they run: one node sums hot rows, and the dense gradient is summed at a root."""
    replicated, summed = network.gathered(node)
    return Method(replicated, summed, network.direct(), network.dense(root))


def merged_at(network: SparseNetwork, node: int, root: int | None) -> Method:
    """The three tiers as they run in a tree: hot rows are summed wherever their ways meet on the way to a node."""
    replicated, summed = network.merged(node)
    return Method(replicated, summed, network.direct(), network.dense(root))


def zebra_flow(network: SparseNetwork) -> Method:
    """Zebra's flow (§III-E): sums of hot rows go to the server, which gives every worker all of its rows."""
    summed = network.summed()
    return Method(summed, summed, network.direct(), network.dense(None))
