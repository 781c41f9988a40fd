"""Circuits that are left for jobs that have begun and whose own have failed.

Ranks keep their plan, and switches and servers what they have summed: the link keeps its name, and its two ends reach
each other at the addresses of another circuit between the same two nodes. What was under way is sent again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain

from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.fabric import FabricEnd, FabricLink
from wiresum.plan.members import NodeChild
from wiresum.plan.shared import PORT, SharedNetwork
from wiresum.turns.ports import Ports

Ways = dict[str, str]
"""The circuit that carries a link of a plan, by the link's name."""


class Detours:
    """The circuits of a network, and which of them have failed.

    Args:
        network: with every circuit that has addresses at its ends.
        ports: of its topology, with what has failed there.
    """

    def __init__(self, network: SharedNetwork, ports: Ports) -> None:
        self._network, self._ports = network, ports
        self._circuits = {network.name(one): one for circuits in network.lit for one in circuits}

    def fail(self, names: Iterable[str]) -> None:
        """These circuits are not tried again, nor is a port of several of them."""
        for name in names:
            self._ports.fail(self._circuits[name].links)

    def left(self, name: str) -> list[str]:
        """Circuits between the same nodes that may get light: itself first, and those with doubtful ports last."""
        ends = self._network.ends(name)
        between = (other for other in self._circuits if self._network.ends(other) == ends)
        return sorted(
            (other for other in between if self._ports.may_light(self._circuits[other])),
            key=lambda other: (other != name, self._ports.doubts(self._circuits[other]), other),
        )

    def fibres(self, names: Iterable[str]) -> set[str]:
        """The fibres of circuits."""
        return set(chain.from_iterable(self._circuits[name].links for name in names))

    def find(self, lacking: Collection[str], held: AbstractSet[str], lit: AbstractSet[str]) -> dict[str, str]:
        """A circuit in place of each that a job lacks: with ports that nobody holds, or else one that others use, too.

        Args:
            lacking: circuits without light.
            held: circuits that others use, and those of the job that have light.
            lit: circuits that have light, which are taken before others.

        Returns:
            None of them if there is not one for each.
        """
        found: dict[str, str] = {}
        for name in sorted(lacking):
            taken = self.fibres({*held, *found.values()})
            left = self.left(name)
            free = [other for other in left if taken.isdisjoint(self._circuits[other].links)]
            free.sort(key=lambda other: (other != name, other not in lit))
            chosen = next(iter([*free, *(other for other in left if other in held)]), None)
            if chosen is None:
                return {}
            found[name] = chosen
        return found

    def beside(self, names: AbstractSet[str], others: AbstractSet[str]) -> set[str]:
        """Those of some circuits whose ports others do not need."""
        taken = self.fibres(others)
        return {name for name in names if name in others or taken.isdisjoint(self._circuits[name].links)}

    def readdressed(self, plan: AggregationPlan, ways: Mapping[str, str]) -> AggregationPlan:
        """A plan whose links of these names are carried by these circuits."""
        links = {name: link_of(self._network, plan, other, name) for name, other in ways.items()}
        return over(plan, links)

    def renamed(self, plan: AggregationPlan, ways: Mapping[str, str]) -> AggregationPlan:
        """The plan as it would be if its links were named after what carries them, to count what is on each circuit."""
        return over(plan, {name: link_of(self._network, plan, other, other) for name, other in ways.items()})


def link_of(network: SharedNetwork, plan: AggregationPlan, circuit: str, name: str) -> FabricLink:
    """A circuit of a network as a plan has it, under a name."""
    ids = {node.name: node.id for node in plan.nodes}
    there = network.addresses(circuit).items()
    ends = [FabricEnd(at=NodeChild(node=ids[node]), address=f"{at}:{PORT}") for node, at in there]
    return FabricLink(id=name, ends=ends)


def over(plan: AggregationPlan, links: Mapping[str, FabricLink]) -> AggregationPlan:
    """A plan over other links, each between the same nodes as the one that it replaces."""
    assert plan.fabric is not None, "only plans of switches name links"
    there = [links.get(link.id, link) for link in plan.fabric.links]
    names = {old: new.id for old, new in links.items()}
    streams = [
        stream.model_copy(
            update={
                "legs": [
                    leg.model_copy(update={"links": [names.get(link, link) for link in leg.links or []]})
                    for leg in stream.legs
                ]
            }
        )
        for stream in plan.streams
    ]
    return plan.model_copy(update={"fabric": plan.fabric.model_copy(update={"links": there}), "streams": streams})
