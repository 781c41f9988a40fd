"""Plans of jobs that share a network of switches: who is a worker, where it is summed, and by which links."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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
from wiresum.plan.members import WorkerChild
from wiresum.plan.shared import SharedNetwork
from wiresum.workload.model import Workload, WorkloadJob
from wiresum.workload.sites import units_of

POLICY: SwitchPolicy = "segment"
"""Its segments are given to jobs at run time (P4INC-AOI §VI-B)."""
CODEC = "fixed:1e6"
EXPONENT_WINDOW = 32
TIMEOUT_S = 0.2
SEGMENT_SLOTS = DEFAULT_WINDOW + EXPONENT_WINDOW
"""Slots of a place: a job's windows. All places of a switch have the same size, so any job may have any of them."""


class PlanMaker:
    """Makes plans of a workload's jobs. A job's hosts are chosen at once, as its ranks are there before it runs.

    Args:
        workload: the jobs, numbered from 1.
        network: numbers nodes and links for all of them.

    Raises:
        ScheduleError: a job has more workers than there are hosts.
    """

    def __init__(self, workload: Workload, network: SharedNetwork) -> None:
        self.jobs = dict(enumerate(workload.jobs, 1))
        self._network = network
        self._units = {unit.name: unit for unit in units_of(network.topology)}
        self._load: Counter[str] = Counter()
        self.hosts = {number: self._hosts_of(job) for number, job in self.jobs.items()}
        self._servers: dict[int, str] = {}

    def unit_of(self, host: str) -> str:
        """The unit of a host or server."""
        return next(unit.name for unit in self._units.values() if host in {*unit.hosts, *unit.servers})

    def plan(
        self, number: int, by: str, circuit: Callable[[frozenset[str]], str], segment: Callable[[str], int]
    ) -> AggregationPlan:
        """The plan of a job.

        Args:
            number: the job's.
            by: what sums it, `switch` or `server`.
            circuit: chooses a link between two units, for one worker.
            segment: chooses a segment of a switch, by its unit.

        Raises:
            ScheduleError: it is to be summed by a server, and has none.
        """
        job, hosts = self.jobs[number], self.hosts[number]
        top = self._top(number, by, hosts)
        ways = {host: self._way(host, by, top, circuit) for host in hosts}
        ranks = {host: rank for rank, host in enumerate(hosts)}
        links = list(dict.fromkeys(link for way in ways.values() for link in way))
        ends = {end for link in links for end in (self._network.links[link].source, self._network.links[link].target)}
        place = _Segment(segment(top) * SEGMENT_SLOTS) if by == "switch" else None
        return AggregationPlan.build(
            format=PLAN_FORMAT,
            planner=f"turns: {job.name}, summed by a {by}",
            job=PlanJob(
                id=number, secret=secrets.token_hex(32), values_per_packet=MAX_SWITCHED_VALUES, codec=CODEC
            ).model_dump(),
            nodes=[node.model_dump() for node in self._network.nodes(ends - set(hosts))],
            workers=[PlanWorker(rank=rank, name=host).model_dump() for host, rank in ranks.items()],
            streams=[self._stream(one, place, ways, ranks, top).model_dump() for one in (0, 1)],
            fabric=PlanFabric(
                timeout_s=TIMEOUT_S,
                links=[self._network.link(link, ranks, number) for link in links],
                memory=[] if place is None else [FabricMemory(node=self._network.number(top), slots=place.base_end)],
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

    def _top(self, number: int, by: str, hosts: Sequence[str]) -> str:
        """The node that has the sums: a job that asks for a server again gets the same one."""
        if by == "switch":
            return self.unit_of(hosts[0])
        if number not in self._servers:
            self._servers[number] = self._server_of(self.jobs[number])
        return self._servers[number]

    def _server_of(self, job: WorkloadJob) -> str:
        """The server of those at a job's location that the fewest other jobs have."""
        if job.server is None or (job.server in self._units and not self._units[job.server].servers):
            raise ScheduleError(f"job {job.name} is summed by a server and its workload names none; name one")
        if job.server not in self._units:
            return job.server
        server = min(self._units[job.server].servers, key=self._load.__getitem__)
        self._load[server] += 1
        return server

    def _way(self, host: str, by: str, top: str, circuit: Callable[[frozenset[str]], str]) -> list[str]:
        """Links from a worker to where its values are summed."""
        first = self._cable(host)
        if by == "switch":
            return [first]
        unit, home = self.unit_of(host), self.unit_of(top)
        return [first, *([] if home == unit else [circuit(frozenset((unit, home)))]), self._cable(top)]

    def _cable(self, host: str) -> str:
        return next(link.id for link in self._network.links.values() if host in (link.source, link.target))

    def _stream(
        self, number: int, place: _Segment | None, ways: Mapping[str, list[str]], ranks: Mapping[str, int], top: str
    ) -> PlanStream:
        is_check = number == 0
        node = self._network.number(top)
        there = PlanPlace(node=node) if place is None else place.part(node, is_check)
        legs = [PlanLeg(child=WorkerChild(worker=ranks[host]), parent=node, links=way) for host, way in ways.items()]
        return PlanStream(
            id=number,
            name="exponents" if is_check else "values",
            role="exponents" if is_check else "values",
            share=0.0 if is_check else 1.0,
            policy=POLICY,
            window=EXPONENT_WINDOW if is_check else DEFAULT_WINDOW,
            places=[there],
            legs=legs,
        )


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
