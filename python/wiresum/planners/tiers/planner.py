"""Tiers: which rows are replicated, which are summed on their way to their server, and which go there straight."""

from __future__ import annotations

from dataclasses import replace

from wiresum.plan.sparse import SparsePart
from wiresum.planners.tiers.answer import Answer, part_of
from wiresum.planners.tiers.instance import SparseInstance
from wiresum.planners.tiers.methods import tiers_at
from wiresum.planners.tiers.rounds import Rounds
from wiresum.planners.tiers.search import Thresholds, best, fewest

MAX_ROOTS = 16
"""Nodes that are tried as the root of replicated rows, those nearest to the workers first."""


def tiers(instance: SparseInstance) -> SparsePart:
    """The two thresholds of popularity, and the root, with which a round is over first.

    Minimises the seconds of the fullest direction of any link, or adder, and then takes the fewest hot rows with which
    a round is at most a thousandth longer. The dense all-reduce counts on every link. Hot rows have to fit the memory
    of every node on their way, replicas the workers'. O(places × capacities) for each root.

    Raises:
        PlanError: a worker does not reach a server.
    """
    network, counts = instance.network, instance.counts
    replicas = counts.place(counts.rows if instance.replicas is None else instance.replicas)
    answers = [_without_replicas(instance)]
    for root in network.roots()[:MAX_ROOTS]:
        rounds = Rounds(instance, tiers_at(network, root))
        below = network.sums_below([root])
        hot = counts.place(instance.hot_rows_limit({root, *below, *network.sums_below(network.server_nodes)}))
        found = best(rounds, replicas, hot, sums=bool(network.sums_below(network.server_nodes)))
        answers.append(Answer(rounds, found, root))
    chosen = min(answers, key=lambda answer: answer.thresholds)
    chosen = replace(chosen, thresholds=fewest(chosen.rounds, chosen.thresholds))
    return part_of(instance, "tiers", chosen)


def _without_replicas(instance: SparseInstance) -> Answer:
    """No root: rows are summed on their way, or not at all."""
    network, counts = instance.network, instance.counts
    rounds, below = Rounds(instance, tiers_at(network, None)), network.sums_below(network.server_nodes)
    hot = counts.place(instance.hot_rows_limit(below)) if below else 0
    found = best(rounds, 0, hot) if below else Thresholds(rounds.seconds(0, 0), 0, 0)
    return Answer(rounds, found, None)
