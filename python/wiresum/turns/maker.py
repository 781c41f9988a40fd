"""Plans of jobs that share a network of switches: who is a worker, where it is summed, and by which links."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

from wiresum.errors import ScheduleError
from wiresum.plan.aggregation_plan import FORMAT as PLAN_FORMAT
from wiresum.plan.aggregation_plan import (
    AggregationPlan,
    PlanJob,
    PlanLeg,
    PlanPlace,
    PlanStream,
    PlanWorker,
)
from wiresum.plan.choices import DEFAULT_WINDOW, SwitchPolicy
from wiresum.plan.fabric import MAX_SWITCHED_VALUES, FabricMemory, PlanFabric
from wiresum.plan.members import NodeChild, WorkerChild
from wiresum.plan.shared import SharedNetwork
from wiresum.turns.darkness import dark_s
from wiresum.turns.trees import Edge, trees
from wiresum.workload.instance import instance
from wiresum.workload.model import Workload, WorkloadJob
from wiresum.workload.sites import units_of

POLICY: SwitchPolicy = "segment"
"""Its segments are given to jobs at run time (P4INC-AOI §VI-B)."""
CODEC = "fixed:1e6"
EXPONENT_WINDOW = 32
TIMEOUT_S = 0.2
SEGMENT_SLOTS = DEFAULT_WINDOW + EXPONENT_WINDOW
"""Slots of a place: a job's windows. All places of a switch have the same size, so any job may have any of them."""

Chooser = Callable[[frozenset[str]], str]
"""Names a circuit between two units."""
Segments = Callable[[Collection[str]], int]
"""Chooses a segment of memory for a job that the switches of some units sum: a packet names its slot once, so it is the
same at all of them."""


class PlanMaker:
    """Makes plans of a workload's jobs. A job's hosts are chosen at once, as its ranks are there before it runs.

    Args:
        workload: the jobs, numbered from 1.
        network: numbers nodes and links for all of them.
        known: secrets of jobs that have some, by number; others get new ones.

    Raises:
        ScheduleError: a job has more workers than there are hosts.
    """

    def __init__(self, workload: Workload, network: SharedNetwork, known: Mapping[int, str] | None = None) -> None:
        self.jobs = dict(enumerate(workload.jobs, 1))
        self._workload, self._network = workload, network
        self.secrets = {number: (known or {}).get(number) or secrets.token_hex(32) for number in self.jobs}
        self._units = {unit.name: unit for unit in units_of(network.topology)}
        self._load: Counter[str] = Counter()
        self.hosts = {number: self._hosts_of(job) for number, job in self.jobs.items()}
        self._servers: dict[int, str] = {}
        self._trees: dict[int, list[Edge]] | None = None

    def unit_of(self, host: str) -> str:
        """The unit of a host or server."""
        return next(unit.name for unit in self._units.values() if host in {*unit.hosts, *unit.servers})

    def units(self, number: int) -> set[str]:
        """Units of a job's workers."""
        return {self.unit_of(host) for host in self.hosts[number]}

    def plan(self, number: int, by: str, circuit: Chooser, segment: Segments) -> AggregationPlan:
        """The plan of a job.

        Args:
            number: the job's.
            by: what sums it, `switch` or `server`.
            circuit: chooses a link between two units, for one worker or for a unit's sum.
            segment: chooses a segment that the switches of some units have free.

        Raises:
            ScheduleError: it is to be summed by a server and has none, or by switches that cannot.
        """
        job, hosts = self.jobs[number], self.hosts[number]
        legs = self._to_switches(number, hosts, circuit) if by == "switch" else self._to_server(number, hosts, circuit)
        ranks = {host: rank for rank, host in enumerate(hosts)}
        links = list(dict.fromkeys(link for leg in legs for link in leg.links))
        ends = {end for link in links for end in self._network.ends(link)}
        tops = dict.fromkeys(leg.parent for leg in legs)
        place = _Segment(segment(set(tops)) * SEGMENT_SLOTS) if by == "switch" else None
        return AggregationPlan.build(
            format=PLAN_FORMAT,
            planner=f"turns: {job.name}, summed by {_summed(by, len(tops))}",
            job=PlanJob(
                id=number, secret=self.secrets[number], values_per_packet=MAX_SWITCHED_VALUES, codec=CODEC
            ).model_dump(),
            nodes=[node.model_dump() for node in self._network.nodes(ends - set(hosts))],
            workers=[PlanWorker(rank=rank, name=host).model_dump() for host, rank in ranks.items()],
            streams=[self._stream(one, place, legs, ranks).model_dump() for one in (0, 1)],
            fabric=PlanFabric(
                timeout_s=TIMEOUT_S,
                links=[self._network.link(link, ranks, number) for link in links],
                memory=[FabricMemory(node=self._network.number(unit), slots=place.base_end) for unit in tops]
                if place
                else [],
            ).model_dump(),
        )

    def with_memory(self, plan: AggregationPlan, segments: Mapping[str, int]) -> AggregationPlan:
        """The plan with room for so many segments at each unit's switch: all plans of a switch have to say the same."""
        assert plan.fabric is not None, "it was made with one"
        slots = {self._network.number(unit): count * SEGMENT_SLOTS for unit, count in segments.items()}
        own = [FabricMemory(node=one.node, slots=slots[one.node]) for one in plan.fabric.memory]
        return plan.model_copy(update={"fabric": plan.fabric.model_copy(update={"memory": own})})

    def _hosts_of(self, job: WorkloadJob) -> list[str]:
        return [host for location, workers in job.workers.items() for host in self._take_hosts(job, location, workers)]

    def _take_hosts(self, job: WorkloadJob, location: str, workers: int) -> list[str]:
        """Hosts for a job's workers at a location, those with the fewest workers of other jobs first."""
        there = list(self._units[location].hosts) if location in self._units else [location]
        if workers > len(there):
            problem = f"job {job.name}: {workers} workers at {location}, which has {len(there)} hosts"
            raise ScheduleError(f"{problem}; a host has one worker of a job, so give it more hosts")
        chosen = sorted(there, key=self._load.__getitem__)[:workers]
        self._load.update(chosen)
        return chosen

    def tree(self, number: int) -> list[Edge] | None:
        """The edges along which the switches of a job's units sum it; None where they cannot."""
        if len(self.units(number)) == 1:
            return []
        if self._trees is None:
            topology, workload = self._network.topology, self._workload
            # Any slot will do: which units send to which is a matter of ports and places.
            self._trees = trees(instance(topology, workload, 1.0 + 2 * dark_s(topology), trees=True))
        return self._trees.get(number)

    def _to_switches(self, number: int, hosts: Sequence[str], circuit: Chooser) -> list[_Leg]:
        """Each worker sends to its unit's switch, and each unit but one to the next."""
        edges = self.tree(number)
        if edges is None:
            problem = f"job {self.jobs[number].name}: the switches of its units cannot sum it together"
            raise ScheduleError(f"{problem}; give each a place and ports, or have a server sum it")
        between = [_Leg(child, parent, [circuit(frozenset((child, parent)))]) for child, parent in edges]
        return [*(_Leg(host, self.unit_of(host), [self._cable(host)]) for host in hosts), *between]

    def _to_server(self, number: int, hosts: Sequence[str], circuit: Chooser) -> list[_Leg]:
        """A job that asks for a server again gets the same one."""
        if number not in self._servers:
            self._servers[number] = self._server_of(self.jobs[number])
        server = self._servers[number]
        return [_Leg(host, server, self._way(self.jobs[number], host, server, circuit)) for host in hosts]

    def _server_of(self, job: WorkloadJob) -> str:
        """The server of those at a job's location that the fewest other jobs have."""
        if job.server is None or (job.server in self._units and not self._units[job.server].servers):
            raise ScheduleError(f"job {job.name} is summed by a server and its workload names none; name one")
        if job.server not in self._units:
            return job.server
        server = min(self._units[job.server].servers, key=self._load.__getitem__)
        self._load[server] += 1
        return server

    def _way(self, job: WorkloadJob, host: str, server: str, circuit: Chooser) -> list[str]:
        """Links from a worker to a server, over another unit where the workload says so."""
        unit, home = self.unit_of(host), self.unit_of(server)
        stations = dict.fromkeys([unit, job.via.get(unit, unit), home] if unit != home else [home])
        over = [circuit(frozenset(ends)) for ends in pairwise(stations)]
        return [self._cable(host), *over, self._cable(server)]

    def _cable(self, host: str) -> str:
        return next(name for name in self._network.links if host in self._network.ends(name))

    def _stream(
        self, number: int, place: _Segment | None, legs: Sequence[_Leg], ranks: Mapping[str, int]
    ) -> PlanStream:
        is_check = number == 0

        def there(name: str) -> PlanPlace:
            node = self._network.number(name)
            return PlanPlace(node=node) if place is None else place.part(node, is_check)

        def child(name: str) -> WorkerChild | NodeChild:
            return WorkerChild(worker=ranks[name]) if name in ranks else NodeChild(node=self._network.number(name))

        return PlanStream(
            id=number,
            name="exponents" if is_check else "values",
            role="exponents" if is_check else "values",
            share=0.0 if is_check else 1.0,
            policy=POLICY,
            window=EXPONENT_WINDOW if is_check else DEFAULT_WINDOW,
            places=[there(name) for name in dict.fromkeys(leg.parent for leg in legs)],
            legs=[
                PlanLeg(child=child(leg.child), parent=self._network.number(leg.parent), links=leg.links)
                for leg in legs
            ],
        )


def free_segment(units: Collection[str], taken: Iterable[Mapping[str, int]]) -> int:
    """The first segment that is free at the switches of all units.

    Args:
        units: of the job.
        taken: segments of other jobs, by unit.
    """
    there = {segment for of_job in taken for unit, segment in of_job.items() if unit in units}
    return next(index for index in count() if index not in there)


def _summed(by: str, places: int) -> str:
    return f"a {by}" if places == 1 else f"{places} switches"


@dataclass(frozen=True)
class _Leg:
    """From a worker, or from a switch that sums, to where its values are summed next; by names.

    Attributes:
        child: where it begins.
        parent: where it ends.
        links: on the way.
    """

    child: str
    parent: str
    links: list[str]


@dataclass(frozen=True)
class _Segment:
    """Slots of a job at a switch: those of the exponents, then those of the values."""

    base: int

    @property
    def base_end(self) -> int:
        return self.base + SEGMENT_SLOTS

    def part(self, node: int, is_check: bool) -> PlanPlace:
        slots = EXPONENT_WINDOW if is_check else DEFAULT_WINDOW
        return PlanPlace(node=node, base=self.base + (0 if is_check else EXPONENT_WINDOW), slots=slots)
