"""Jobs over circuits in packets and trains: the plans, links and gates that a live run has.

`crates/sim/src/circuits/turns.rs` reads what is made here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wiresum.errors import ScheduleError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.fabric import MAX_SWITCHED_VALUES
from wiresum.plan.schedule import Interval as PlannedInterval
from wiresum.plan.shared import SharedNetwork
from wiresum.schedule.model import Interval, Timetable
from wiresum.sim.planned import streams
from wiresum.sim.scenario import ScenarioJob
from wiresum.topology.model import Topology
from wiresum.turns.plans import assigned, cable_bps, sending_bps
from wiresum.turns.sharing import GRADIENT_PART, PACKET_BYTES, links_of
from wiresum.turns.shifts import interleaved, unshifted
from wiresum.workload.model import Workload, WorkloadJob

FIRST_S = {"packets": 0.005, "trains": 0.0}
"""Seconds of a job's first interval in which nothing is sent: ranks take so long to hear of each other, in packets."""
LAST_S = {"packets": 0.01, "trains": 0.005}
"""Seconds that a job's last sums are on their way."""
LAST_PACKETS = {"packets": 2, "trains": 0}
"""Packets that a job has to send in its last interval beside its share, as it has lost their time between rounds."""


class TurnsOverCircuits:
    """Jobs in their turns, over links that are circuits.

    Args:
        workload: the jobs, numbered from 1.
        network: with every circuit that is ever lit.
        plans: by job; the simulator has the jobs in this order.
        intervals: with rates on the cable.

    Attributes:
        topology: with every circuit that is ever lit as a link, and no optical switch.
    """

    def __init__(
        self,
        workload: Workload,
        network: SharedNetwork,
        plans: Mapping[int, AggregationPlan],
        intervals: Sequence[PlannedInterval],
    ) -> None:
        self._workload, self._network, self._plans, self._intervals = workload, network, dict(plans), intervals
        nodes = [node for node in network.topology.nodes if node.kind != "oxc"]
        self.topology = network.topology.model_copy(update={"nodes": nodes, "links": list(network.links.values())})
        lit = {network.name(circuit) for circuits in network.lit for circuit in circuits}
        self.circuits = [link.id for link in self.topology.links if link.id in lit]

    def jobs(self) -> list[dict[str, Any]]:
        """What the simulator's packets take."""
        return [
            {
                "name": job.name,
                "plan": plan.model_dump(mode="json", exclude_none=True, exclude={"solution"}),
                "bytes": job.bytes,
                "rounds": job.iterations,
                "workers": _times(job),
                "streams": [],
                "barrier": False,
            }
            for job, plan in self._planned()
        ]

    def programs(self, sites: Mapping[str, int]) -> list[dict[str, Any]]:
        """What the simulator's trains take."""
        return [self._program(job, plan, sites) for job, plan in self._planned()]

    def _planned(self) -> Iterator[tuple[WorkloadJob, AggregationPlan]]:
        return ((self._workload.jobs[number - 1], plan) for number, plan in self._plans.items())

    def _program(self, job: WorkloadJob, plan: AggregationPlan, sites: Mapping[str, int]) -> dict[str, Any]:
        described = ScenarioJob(name=job.name, bytes=job.bytes or 0)
        made = streams(self.topology, described, plan, MAX_SWITCHED_VALUES, sites)
        return {
            "name": job.name,
            "policy": made.policy,
            "streams": made.streams,
            "memory_slots": made.slots,
            "priority": 0,
            "packet_bytes": PACKET_BYTES,
            "timeout_s": plan.fabric.timeout_s if plan.fabric else 0.0,
            "rounds": job.iterations,
            "workers": _times(job),
        }

    def turns(
        self,
        instance: Mapping[str, Any],
        switch: str,
        *,
        announced: bool,
        waits: bool,
        faults: Sequence[Mapping[str, Any]],
        stop_s: float | None = None,
    ) -> dict[str, Any]:
        """When circuits have light, and who sends how fast.

        Args:
            instance: of schedulers, whose circuits have the rate of cables.
            switch: name of the optical switch.
            announced: whether gates wait for light.
            waits: whether an interval begins only when jobs have ended that have no rate any more.
            faults: what fails.
            stop_s: when the run stops and says what is seen; all jobs end where absent.
        """
        units = {unit["name"]: index for index, unit in enumerate(instance["units"])}
        index = {name: number for number, name in enumerate(self.circuits)}
        positions = {link.id: position for position, link in enumerate(self.topology.links)}
        ends = {name: self._network.links[name] for name in self.circuits}
        order = {str(job): position for position, job in enumerate(self._plans)}
        return {
            "switch": switch,
            "ports": [unit["ports"] for unit in instance["units"]],
            "dark_s": instance["dark_s"],
            "darkens": instance["darkens"],
            "port_bps": instance["port_bps"],
            "circuits": [
                {"link": positions[name], "between": sorted((units[link.source], units[link.target]))}
                for name, link in ends.items()
            ],
            "intervals": [
                {
                    "from_s": one.from_s,
                    "until_s": one.until_s,
                    "circuits": sorted(index[self._network.name(circuit)] for circuit in one.circuits),
                    "rates": [[order[job], rate_bps] for job, rate_bps in one.rates_bps.items()],
                }
                for one in self._intervals
            ],
            "jobs": [sorted(index[name] for name in links_of(plan) & set(index)) for plan in self._plans.values()],
            "announced": announced,
            "waits": waits,
            "faults": list(faults),
            "stop_s": stop_s,
        }


def on_cable(
    job: WorkloadJob, rate_bps: float, seconds: float, dark_s: float, fidelity: str, *, is_first: bool, is_last: bool
) -> float:
    """How fast a job's workers send on the cable, such that it ends with the interval as promised.

    Args:
        job: whose worker sends.
        rate_bps: its mean rate in the interval, as a timetable has it.
        seconds: of the interval.
        dark_s: for which it waits for light first.
        fidelity: `packets` or `trains`.
        is_first: whether the job begins with this interval.
        is_last: whether it ends with it.
    """
    joining_s = FIRST_S[fidelity] if is_first else 0.0
    arriving_s, packets = (LAST_S[fidelity], LAST_PACKETS[fidelity]) if is_last else (0.0, 0)
    mean_bps = sending_bps(job, rate_bps) + packets * 8 * PACKET_BYTES / seconds
    return cable_bps(mean_bps, seconds, dark_s + joining_s + arriving_s, GRADIENT_PART)


def followed(
    topology: Topology,
    workload: Workload,
    timetable: Timetable,
    dark_s: float,
    fidelity: str,
    *,
    shifts: bool = True,
    slots: bool = True,
    trees: bool = False,
) -> TurnsOverCircuits:
    """The turns of a timetable.

    Args:
        topology: with one optical switch.
        workload: the jobs.
        timetable: of them, at rates that leave room for headers.
        dark_s: of new circuits.
        fidelity: `packets` or `trains`.
        shifts: whether jobs that compute may begin later, so that they send while others compute.
        slots: whether its circuits change with slots, in which jobs wait for light; without slots their rates begin
            with it.
        trees: whether switches of several units may sum a job together.

    Raises:
        ScheduleError: a job cannot run as the timetable says.
    """
    _require_dark_before(timetable)
    found = assigned(timetable, topology, workload)
    plans = {int(job): plan for one in found.intervals for job, plan in one.plans.items()}
    _require_trees(plans, trees=trees)
    ends = _ends(timetable)
    paces = {} if slots else _paces(workload, timetable, fidelity)
    lit = [set[str](), *({found.network.name(circuit) for circuit in one.circuits} for one in found.intervals)]

    def rates(index: int, slot: Interval) -> dict[str, float]:
        if not slots:
            return {str(rate.job): rate.rate_bps * paces[rate.job] for rate in slot.rates}
        added = lit[index + 1] - lit[index]
        return {
            str(rate.job): on_cable(
                workload.jobs[rate.job - 1],
                rate.rate_bps,
                slot.until_s - slot.from_s,
                dark_s if links_of(plans[rate.job]) & added else 0.0,
                fidelity,
                is_first=ends[rate.job][0] == index,
                is_last=ends[rate.job][1] == index,
            )
            for rate in slot.rates
        }

    told = [
        one.model_copy(update={"rates_bps": rates(index, slot)})
        for index, (slot, one) in enumerate(zip(timetable.intervals, found.intervals, strict=True))
    ]
    jobs = dict(enumerate(workload.jobs, 1))
    # Here a job computes when its gate has opened, as it begins then; live it has computed before.
    intervals = (
        interleaved(told, jobs, found.network, computes_first=True) if shifts else unshifted(told, found.network)
    )
    return TurnsOverCircuits(workload, found.network, {job: plans[job] for job in jobs}, intervals)


def _require_dark_before(timetable: Timetable) -> None:
    """Refuses a timetable that has circuits without setting them up: here all are dark at the start.

    Raises:
        ScheduleError: it has.
    """
    lit: Counter[frozenset[str]] = Counter()
    added = 0
    for slot in timetable.intervals:
        now = Counter({frozenset(one.between): one.circuits for one in slot.circuits})
        added, lit = added + (now - lit).total(), now
    if before := added - timetable.cost.setups:
        problem = f"the timetable was made where {before} of its circuits are lit before, and none is here"
        raise ScheduleError(f"{problem}; make it with `before` none, or set `fidelity` to flows")


def _require_trees(plans: Mapping[int, AggregationPlan], *, trees: bool) -> None:
    """Refuses jobs that switches of several units sum where none may be.

    Raises:
        ScheduleError: there is one; the message names it.
    """
    job = next((job for job, plan in plans.items() if len(plan.streams[-1].places) > 1), None)
    if job is not None and not trees:
        raise ScheduleError(f"switches of several units sum job {job}; add `trees = true`")


def _paces(workload: Workload, timetable: Timetable, fidelity: str) -> dict[int, float]:
    """How much faster than its rates each job sends on the cable, all the time, such that it ends as promised.

    Intervals without slots may be shorter than what a job loses at its two ends.
    """
    times: defaultdict[int, float] = defaultdict(float)
    bits: defaultdict[int, float] = defaultdict(float)
    for slot in timetable.intervals:
        for rate in slot.rates:
            times[rate.job] += slot.until_s - slot.from_s
            bits[rate.job] += rate.rate_bps * (slot.until_s - slot.from_s)
    means = {job: bits[job] / seconds for job, seconds in times.items()}
    return {
        job: on_cable(workload.jobs[job - 1], mean_bps, times[job], 0.0, fidelity, is_first=True, is_last=True)
        / mean_bps
        for job, mean_bps in means.items()
    }


def _ends(timetable: Timetable) -> dict[int, tuple[int, int]]:
    """Indices of the first and the last interval of each job."""
    ends: dict[int, tuple[int, int]] = {}
    for index, slot in enumerate(timetable.intervals):
        ends |= {rate.job: (ends.get(rate.job, (index, index))[0], index) for rate in slot.rates}
    return ends


def _times(job: WorkloadJob) -> list[dict[str, Any]]:
    def constant(seconds: float) -> dict[str, Any]:
        return {"kind": "constant", "seconds": seconds}

    return [{"start": constant(0.0), "compute": constant(job.compute_s)}] * job.worker_count
