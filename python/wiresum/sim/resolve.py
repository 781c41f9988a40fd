"""From a scenario to what the simulator runs: generators, planners and defaults are gone."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from wiresum.document import Location, is_there
from wiresum.errors import PlanError, ScheduleError, TopologyError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.assignment import as_plan
from wiresum.plan.assignment.routes import arcs
from wiresum.plan.assignment.wiring import unlimited
from wiresum.planners import SWITCH_PLANNERS, assign
from wiresum.planners import plan as make_plan
from wiresum.predict import streams
from wiresum.predict.hosts import HostProfile, limit_of_threads
from wiresum.predict.schedule import Tree
from wiresum.schedule.model import Timetable
from wiresum.sim.asked import Question, asked, seen
from wiresum.sim.circuits import resolve_circuits, workload_of
from wiresum.sim.passed import Passed, PassedStream, passed, replaced
from wiresum.sim.planned import choices, described, is_planned, simulated_secret, switched
from wiresum.sim.programs import Programs
from wiresum.sim.rows import PlannedRows, planned_rows, resolve_dense, resolve_rows
from wiresum.sim.scenario import DEFAULT_QUEUE_BYTES, Circuits, LinkConditions, ScenarioJob
from wiresum.sim.source import ScenarioFile
from wiresum.sim.trees import resolved_ways
from wiresum.sim.turns import TurnsOverCircuits, followed
from wiresum.topology.model import Link, Topology
from wiresum.turns.sharing import GRADIENT_PART

LoadTopology = Callable[[str], Topology]
"""A topology by its name or path, as the command line knows them."""


def resolve(file: ScenarioFile, load: LoadTopology, timeline: bool = False) -> str:
    """What `wiresum._native.simulate` takes.

    Args:
        file: the scenario.
        load: finds topologies.
        timeline: whether loads and slots over time are told.

    Raises:
        ScenarioError: something that the scenario names does not exist, or a plan cannot be made; with its line.
    """
    return _Resolver(file, topology_of(file, load), timeline).resolve()


def topology_and_plans(file: ScenarioFile, load: LoadTopology) -> tuple[Topology, list[AggregationPlan]]:
    """What the jobs of a scenario without switch programs would run live.

    Raises:
        ScenarioError: as for `resolve`.
    """
    if file.scenario.circuits is not None:
        raise file.error(("circuits",), "circuits: jobs over circuits have no plans; run the scenario by `simulate`")
    if file.scenario.rows is not None:
        raise file.error(("rows",), "rows: a sparse job has no plans of dense jobs; run the scenario by `compare`")
    resolver = _Resolver(file, topology_of(file, load), timeline=False)
    return resolver.topology, [resolver.plan(index, job) for index, job in enumerate(file.scenario.job)]


def topology_of(file: ScenarioFile, load: LoadTopology) -> Topology:
    """The topology that a scenario names.

    Raises:
        ScenarioError: there is none, or it is wrong; with its line.
    """
    beside = file.path.parent / file.scenario.topology
    try:
        topology = load(str(beside) if is_there(beside) else file.scenario.topology)
        # Links over an optical switch are the circuits of a moment; schedulers know units, not addresses.
        return topology if file.scenario.circuits is not None else topology.with_addresses()
    except TopologyError as bad:
        raise file.error(("topology",), f"topology: {bad}") from None


ACCIDENTS = ("loss", "duplication", "reordering", "jitter_s")
"""What links do to single packets."""


class _Resolver:
    """One scenario over one topology."""

    def __init__(self, file: ScenarioFile, topology: Topology, timeline: bool) -> None:
        self.file = file
        self.timeline = timeline
        self.scenario = file.scenario
        self.topology = topology
        self.sites = {node.name: index for index, node in enumerate(topology.nodes)}
        self.links = {link.id: index for index, link in enumerate(topology.links)}
        self.worker_bps: dict[str, float] = {}

    def resolve(self) -> str:
        if self.scenario.circuits is not None:
            circuits = resolve_circuits(self.file, self.scenario.circuits, self.topology)
            if self.scenario.fidelity != "flows":
                return self._turns(self.scenario.circuits, circuits)
            return self._content([], [], [], [], circuits=circuits)
        self._check_links()
        if self.scenario.rows is not None:
            return self._rows(planned_rows(self.file, self.scenario.rows, self.topology))
        self._require_names()
        if self.scenario.fidelity == "trains":
            programs = Programs(self.file, self.topology, self.sites)
            return self._content(self._sites(programs.wire_factor), self._links(), [], programs.resolve())
        plans = [self.plan(index, job) for index, job in enumerate(self.scenario.job)]
        self._require_distinct_jobs(plans)
        self.worker_bps = self._limits_of_hosts(plans)
        jobs = [
            self._job(index, job, plan) for index, (job, plan) in enumerate(zip(self.scenario.job, plans, strict=True))
        ]
        wire_bytes = sum(stream.wire_bytes for stream in streams(plans[0], self.scenario.job[0].bytes))
        return self._content(self._sites(wire_bytes / self.scenario.job[0].bytes), self._links(), jobs, [])

    def _rows(self, planned: PlannedRows) -> str:
        """A sparse job, and its dense part if it has one."""
        wire_factor = 1.0
        if planned.dense is not None:
            dense_bytes = planned.job.dense_bytes
            wire_factor = sum(stream.wire_bytes for stream in streams(planned.dense, dense_bytes)) / dense_bytes
        rows = resolve_rows(planned, self.sites)
        return self._content(self._sites(wire_factor), self._links(), resolve_dense(planned), [], rows=rows)

    def _turns(self, said: Circuits, circuits: dict[str, Any]) -> str:
        """Jobs over circuits with the plans, links and gates that they have live."""
        workload, instance, fidelity = workload_of(self.file, said), circuits["instance"], self.scenario.fidelity
        network = self.topology

        def resolved(over: TurnsOverCircuits, stop_s: float | None = None) -> str:
            self.topology = over.topology
            self.sites = {node.name: index for index, node in enumerate(self.topology.nodes)}
            known: dict[str, Any] = {"announced": said.announced, "waits": said.timetable is not None}
            known |= {"faults": circuits["faults"], "stop_s": stop_s}
            turns, sites = over.turns(instance, circuits["switch"], **known), self._sites(1 / GRADIENT_PART)
            if fidelity == "packets":
                return self._content(sites, self._links(), over.jobs(), [], turns=turns)
            return self._content(sites, self._links(), [], over.programs(self.sites), turns=turns)

        try:
            if said.timetable is not None:
                timetable = Timetable.read(self.file.path.parent / said.timetable)
                return resolved(
                    followed(
                        network,
                        workload,
                        timetable,
                        instance["dark_s"],
                        fidelity,
                        shifts=said.shifts,
                        slots=said.slots,
                        trees=said.trees,
                    )
                )
            options, patience_s = {**circuits["options"], "online": True}, self.scenario.patience_s
            question = Question(network, workload, instance, said.scheduler, options, fidelity, patience_s)
            return resolved(asked(question, lambda over, stop_s: seen(resolved(over, stop_s))))
        except (ScheduleError, PlanError, TopologyError) as bad:
            raise self.file.error(("circuits",), f"circuits: {bad}") from None

    def _content(
        self,
        sites: list[dict[str, Any]],
        links: list[dict[str, Any]],
        jobs: list[dict[str, Any]],
        programs: list[dict[str, Any]],
        *,
        circuits: dict[str, Any] | None = None,
        rows: dict[str, Any] | None = None,
        turns: dict[str, Any] | None = None,
    ) -> str:
        scenario, is_packet = self.scenario, self.scenario.circuits is None
        return json.dumps({
            "fidelity": scenario.fidelity,
            "seed": scenario.seed,
            "patience_s": scenario.patience_s,
            "check_sums": scenario.check_sums,
            "train": scenario.train,
            "timeline": self.timeline,
            "sites": sites,
            "links": links,
            "jobs": jobs,
            "programs": programs,
            "background": [self._background(index) for index in range(len(scenario.background))],
            "failures": [self._failure(index) for index in range(len(scenario.failure))] if is_packet else [],
            "circuits": circuits,
            "turns": turns,
            "rows": rows,
        })  # fmt: skip

    def plan(self, index: int, job: ScenarioJob) -> AggregationPlan:
        """A job's own, or its planner's."""
        place: Location = ("job", index)
        try:
            plan = self._read_or_make(index, job)
        except (PlanError, TopologyError) as bad:
            raise self.file.error((*place, "plan" if job.plan else "planner"), f"job {job.name}: {bad}") from None
        except ValueError as bad:
            raise self.file.error(place, f"job {job.name}: {bad}") from None
        for name in [*(node.name for node in plan.nodes), *(worker.name for worker in plan.workers)]:
            self._site(name, (*place, "plan"), f"the plan of job {job.name} names")
        self._require_addresses(plan, place)
        return plan

    def _read_or_make(self, index: int, job: ScenarioJob) -> AggregationPlan:
        if job.plan is not None:
            plan = AggregationPlan.read_public(self.file.path.parent / job.plan)
            return plan.model_copy(update={"job": plan.job.model_copy(update={"secret": simulated_secret(index + 1)})})
        if job.planner not in SWITCH_PLANNERS:
            return make_plan(self.topology, described(job, index + 1), choices(job), job.planner)
        assignment = assign(self.topology, described(job, index + 1), choices(job), job.planner)
        # Switches sum here, in slots of their own; a plan for servers would want the gradient's.
        return as_plan(job.planner, unlimited(assignment), choices(job))

    def _require_addresses(self, plan: AggregationPlan, place: Location) -> None:
        """Two plans must agree on who has an address. In a fabric links have addresses, and nodes none."""
        for node in plan.nodes if plan.fabric is None else []:
            ours = self.topology.node(node.name).address
            if ours is not None and node.ip != type(node.ip)(ours):
                problem = f"the plan has {node.name} at {node.ip}, the topology at {ours}: it is for another topology"
                raise self.file.error((*place, "plan"), problem)

    def _require_distinct_jobs(self, plans: list[AggregationPlan]) -> None:
        ids = [plan.job.id for plan in plans]
        for index in range(1, len(plans)):
            if ids[index] in ids[:index]:
                raise self.file.error(("job", index), f"two jobs have the id {ids[index]}; give each plan its own")

    def _require_names(self) -> None:
        names = [job.name for job in self.scenario.job]
        for index, job in enumerate(self.scenario.job):
            if self.scenario.fidelity == "trains" and job.collective != "all_reduce":
                problem = "trains carry all-reduces alone; take the fidelity `flows` or `packets`"
                raise self.file.error(("job", index, "collective"), f"job {job.name}: {problem}")
            if not self._has_program(job):
                need = "needs [job.program]" if self.scenario.fidelity == "trains" else "takes no [job.program]"
                problem = f'fidelity = "{self.scenario.fidelity}" {need}; change the fidelity or the job'
                raise self.file.error(("job", index, "program"), f"job {job.name}: {problem}")
            if names[index] in names[:index]:
                raise self.file.error(("job", index, "name"), f"two jobs are called {names[index]}; rename one")

    def _has_program(self, job: ScenarioJob) -> bool:
        """Whether trains, and only trains, know what switches do; flows take a planner's trees as they are."""
        if self.scenario.fidelity == "trains":
            return job.program is not None or is_planned(job)
        return job.program is None or (self.scenario.fidelity == "flows" and is_planned(job))

    def _limits_of_hosts(self, plans: Sequence[AggregationPlan]) -> dict[str, float]:
        """bit/s that workers' threads keep up with, each way; of a worker with several jobs the least."""
        if self.scenario.hosts is None:
            return {}
        try:
            profile = HostProfile.read(self.file.path.parent / self.scenario.hosts)
        except PlanError as bad:
            raise self.file.error(("hosts",), f"hosts: {bad}") from None
        limits: dict[str, float] = {}
        for job, plan in zip(self.scenario.job, plans, strict=True):
            if plan.fabric is not None:
                problem = f"hosts: switches sum job {job.name}, and a profile is of servers; leave it out"
                raise self.file.error(("hosts",), problem)
            limit_bps = limit_of_threads(plan, job.bytes, profile)
            for worker in plan.workers:
                limits[worker.name] = min(limit_bps, limits.get(worker.name, math.inf))
        return limits

    def _sites(self, wire_factor: float) -> list[dict[str, Any]]:
        """Nodes; what they add is given in bytes of gradient, and counted in bytes on the wire."""
        return [
            {
                "name": node.name,
                "forwards": node.kind == "switch",
                "adding_bps": node.available_rate_bps * wire_factor or None,
            }
            for node in self.topology.nodes
        ]

    def _links(self) -> list[dict[str, Any]]:
        return [self._link(link) for link in self.topology.links]

    def _link(self, link: Link) -> dict[str, Any]:
        changes = [change for change in self.scenario.link if change.id == link.id]
        given = [*changes, self.scenario.links]
        return {
            "id": link.id,
            "source": self.sites[link.source],
            "target": self.sites[link.target],
            "forward": self._direction(link, link.source, given),
            "backward": self._direction(link, link.target, given),
        }

    def _rate_from(self, link: Link, node: str) -> float | None:
        """That of the link, or what a worker at either end keeps up with."""
        limits = [self.worker_bps[end] for end in (link.source, link.target) if end in self.worker_bps]
        rate_bps = link.bandwidth_from(node)
        return min(limits if rate_bps is None else [rate_bps, *limits], default=None)

    def _direction(self, link: Link, node: str, given: list[LinkConditions]) -> dict[str, Any]:
        def first(field: str, default: Any) -> Any:
            values = [getattr(conditions, field) for conditions in given]
            return next((value for value in values if value is not None), default)

        return {
            "rate_bps": self._rate_from(link, node),
            "delay_s": link.delay_from(node),
            "queue_bytes": first("queue_bytes", DEFAULT_QUEUE_BYTES),
            "ecn_bytes": first("ecn_bytes", None),
            "loss": first("loss", link.loss_from(node)),
            "duplication": first("duplication", 0.0),
            "reordering": first("reordering", 0.0),
            "jitter_s": first("jitter_s", 0.0),
        }

    def _job(self, index: int, job: ScenarioJob, plan: AggregationPlan) -> dict[str, Any]:
        names = [worker.name for worker in plan.workers]
        for field in ("starts", "computes"):
            for name in getattr(job, field):
                if name not in names:
                    problem = f"job {job.name}: there is no worker {name}; it has {', '.join(names[:8])}"
                    raise self.file.error(("job", index, field, name), problem)
        if job.upload_only and self.scenario.fidelity != "flows":
            raise self.file.error(
                ("job", index, "upload_only"), "upload_only: packets bring results down; use the fidelity `flows`"
            )
        if job.upload_only and job.collective != "all_reduce":
            problem = f"upload_only: only all-reduces end at their roots, not {job.collective}; remove one of the two"
            raise self.file.error(("job", index, "upload_only"), problem)
        is_switched = plan.fabric is not None or (job.plan is None and job.planner in SWITCH_PLANNERS)
        found = self._passed(index, job, plan)
        if is_switched:
            found = replaced(found, switched(job, plan, [one.stream for one in found.streams]))
        return {
            "name": job.name,
            "plan": plan.model_dump(mode="json", exclude_none=True, exclude={"solution"}),
            "bytes": found.bytes,
            "collectives": list(found.collectives),
            "actions": list(found.actions),
            "rounds": job.rounds,
            "workers": job.times(names),
            "streams": [self._stream(index, one, is_copied=is_switched) for one in found.streams],
            "barrier": not is_switched and plan.job.waits_for_all,
            "upload_only": job.upload_only,
        }  # fmt: skip

    def _passed(self, index: int, job: ScenarioJob, plan: AggregationPlan) -> Passed:
        try:
            return passed(job, plan)
        except PlanError as bad:
            remedy = "; in a scenario, `copies = true` gives the planner's plan copies" if job.plan is None else ""
            raise self.file.error(("job", index, "collective"), f"job {job.name}: {bad}{remedy}") from None

    def _stream(self, index: int, one: PassedStream, *, is_copied: bool) -> dict[str, Any]:
        stream = one.stream
        try:
            ways = arcs(self.topology, stream.links)
        except PlanError as bad:
            raise self.file.error(("job", index, "plan"), f"job {self.scenario.job[index].name}: {bad}") from None
        edges = Tree(stream.parents).edges
        return {
            "name": stream.name,
            "collective": one.collective,
            "edges": [[self.sites[child], self.sites[parent]] for child, parent in edges],
            "wire_bytes": float(stream.wire_bytes),
            "shares": [one.loads[child] for child, _ in edges if one.loads],
            "lockstep": stream.lockstep,
            "ways": resolved_ways(ways, self.sites),
            "is_copied": is_copied,
        }

    def _background(self, index: int) -> dict[str, Any]:
        traffic = self.scenario.background[index]
        place: Location = ("background", index)
        content = traffic.model_dump(exclude={"source", "target"})
        content["source"] = self._site(traffic.source, (*place, "source"), "source:")
        content["target"] = self._site(traffic.target, (*place, "target"), "target:")
        if traffic.target not in {node.name for node in self.topology.by_distance(traffic.source)}:
            problem = f"target: {traffic.source} does not reach {traffic.target}; link them, or name another node"
            raise self.file.error((*place, "target"), problem)
        return content

    def _failure(self, index: int) -> dict[str, Any]:
        failure = self.scenario.failure[index]
        place: Location = ("failure", index)
        if (failure.link is None) == (failure.node is None):
            raise self.file.error(place, "a failure is that of a `link` or of a `node`; give one of them")
        what: dict[str, int]
        if failure.link is not None:
            if failure.link not in self.links:
                known = ", ".join(list(self.links)[:8])
                raise self.file.error((*place, "link"), f"link: there is no link {failure.link}; there are {known} …")
            what = {"link": self.links[failure.link]}
        else:
            what = {"site": self._site(str(failure.node), (*place, "node"), "node:")}
        return {"what": what, "at_s": failure.at_s, "until_s": failure.until_s}

    def _site(self, name: str, place: Location, who: str) -> int:
        if name not in self.sites:
            known = ", ".join(list(self.sites)[:8])
            raise self.file.error(place, f"{who} {name}, which the topology does not have; it has {known} …")
        return self.sites[name]

    def _check_links(self) -> None:
        """Every link that differs is one of the topology's."""
        for index, change in enumerate(self.scenario.link):
            if change.id not in self.links:
                known = ", ".join(list(self.links)[:8])
                raise self.file.error(("link", index, "id"), f"id: there is no link {change.id}; there are {known} …")
        if self.scenario.fidelity == "flows":
            self._refuse_accidents()

    def _refuse_accidents(self) -> None:
        """Flows answer no question about lost, doubled or late packets."""
        given: list[tuple[Location, LinkConditions]] = [(("links",), self.scenario.links)]
        given += [(("link", index), change) for index, change in enumerate(self.scenario.link)]
        for place, conditions in given:
            for field in ACCIDENTS:
                if getattr(conditions, field):
                    problem = f"{field}: flows have no packets to which this could happen; set `fidelity` to packets"
                    raise self.file.error((*place, field), problem)
        lossy = next((link.id for link in self.topology.links if link.loss or link.reverse_loss), None)
        if lossy is not None and self.scenario.links.loss is None:
            problem = f"the topology's link {lossy} loses packets, and flows have none; set `fidelity` to packets"
            raise self.file.error(("fidelity",), f"{problem}, or `links.loss` to 0")
