"""Ports for numbers of circuits between units, while some circuits may not go and some ports do not work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import combinations

from wiresum.topology.circuits import Fibre, fibres
from wiresum.topology.model import Topology
from wiresum.topology.optical import Circuit

Pair = frozenset[str]
"""Two units."""
Fibres = frozenset[str]
"""The two fibres of a circuit."""
MOST_FAILURES = 2
"""Circuits of a port that have failed until the port is the one to blame."""


def all_circuits(topology: Topology) -> list[Circuit]:
    """Every circuit that the optical switches of a topology could ever have."""
    pairs = combinations(fibres(topology), 2)
    return [_circuit(one, other) for one, other in pairs if one.can_meet(other)]


class Ports:
    """The ports of a topology, and what has failed there.

    Args:
        topology: with optical switches.
    """

    def __init__(self, topology: Topology) -> None:
        self._fibres = fibres(topology)
        self._unit = {fibre.link.id: fibre.unit for fibre in self._fibres}
        self._failed: set[Fibres] = set()

    def fail(self, circuit: Collection[str]) -> None:
        """A circuit of two fibres has no light, and is not tried again."""
        self._failed.add(frozenset(circuit))

    def failed(self) -> list[list[str]]:
        """Fibres of the circuits that have failed."""
        return sorted(sorted(circuit) for circuit in self._failed)

    def pair(self, circuit: Circuit) -> Pair:
        """The units that a circuit joins."""
        return frozenset(self._unit[link] for link in circuit.links)

    def working(self) -> dict[str, int]:
        """Ports that work, by unit: all but those that failed with several others."""
        return dict(Counter(fibre.unit for fibre in self._fibres if not self._is_broken(fibre)))

    def may_light(self, circuit: Circuit) -> bool:
        """Whether a circuit may get light: it has not failed, nor has a port of it."""
        ends = [fibre for fibre in self._fibres if fibre.link.id in circuit.links]
        return frozenset(circuit.links) not in self._failed and not any(map(self._is_broken, ends))

    def doubts(self, circuit: Circuit) -> int:
        """How many circuits have failed that end at one of these ports."""
        return sum(not failed.isdisjoint(circuit.links) for failed in self._failed)

    def could_join(self, pair: Pair) -> bool:
        """Whether any circuit between two units has not failed."""
        near, far = ([fibre for fibre in self._fibres if fibre.unit == unit] for unit in sorted(pair))
        return any(self._may_join(one, other) for one in near for other in far)

    def choose(self, wanted: Mapping[Pair, int], held: Iterable[Circuit], lit: Iterable[Circuit]) -> list[Circuit]:
        """Circuits for numbers of them, as far as ports go.

        Args:
            wanted: how many between two units.
            held: circuits that have to stay, wanted or not: jobs that have begun use them.
            lit: circuits that are there, which are taken before others.
        """
        chosen = list(held)
        taken = {link for circuit in chosen for link in circuit.links}
        missing = Counter(wanted)
        missing.subtract(self.pair(circuit) for circuit in chosen)
        for circuit in lit:
            if missing[self.pair(circuit)] > 0 and taken.isdisjoint(circuit.links):
                chosen.append(circuit)
                taken.update(circuit.links)
                missing[self.pair(circuit)] -= 1
        for pair, count in sorted(missing.items(), key=lambda one: sorted(one[0])):
            for _ in range(count):
                made = self._take(pair, taken)
                if made is None:
                    break
                chosen.append(made)
                taken.update(made.links)
        return chosen

    def _take(self, pair: Pair, taken: Collection[str]) -> Circuit | None:
        near, far = (
            [fibre for fibre in self._fibres if fibre.unit == unit and fibre.link.id not in taken]
            for unit in sorted(pair)
        )
        joined = (_circuit(one, other) for one in near for other in far if self._may_join(one, other))
        return next(joined, None)

    def _may_join(self, one: Fibre, other: Fibre) -> bool:
        broken = self._is_broken(one) or self._is_broken(other)
        return one.can_meet(other) and not broken and frozenset((one.link.id, other.link.id)) not in self._failed

    def _is_broken(self, fibre: Fibre) -> bool:
        return sum(fibre.link.id in circuit for circuit in self._failed) >= MOST_FAILURES


def _circuit(one: Fibre, other: Fibre) -> Circuit:
    return Circuit(switch=one.switch, links=[one.link.id, other.link.id])
