"""Jobs that switches with little memory sum, as the simulator takes them."""

import math
from collections.abc import Mapping
from typing import Any

from wiresum.document import Location
from wiresum.errors import PlanError, ScenarioError, TopologyError
from wiresum.plan.aggregation_plan import LANE_BYTES, AggregationPlan
from wiresum.plan.fabric import PACKET_OVERHEAD
from wiresum.planners import SWITCH_PLANNERS
from wiresum.sim.planned import Planned, cohorts, is_planned, packet_values, streams
from wiresum.sim.scenario import ScenarioJob, SwitchProgram
from wiresum.sim.source import ScenarioFile
from wiresum.topology.model import Topology
from wiresum.wire import COHORT_WORKERS, POLICIES, PolicyName

ADDRESSED = [name for name, policy in POLICIES.items() if policy.is_addressed]
"""Policies whose packets name the switch that sums them."""


class Programs:
    """The jobs of a scenario with programs.

    Attributes:
        file: the scenario.
        topology: where they run.
        sites: index of each node.
    """

    def __init__(self, file: ScenarioFile, topology: Topology, sites: Mapping[str, int]) -> None:
        self.file = file
        self.topology = topology
        self.sites = sites
        self.switches = [sites[node.name] for node in topology.summing_nodes if node.kind == "switch"]

    @property
    def wire_factor(self) -> float:
        """Bytes on the wire for each byte of gradient, by the first job's packets."""
        gradient_bytes = LANE_BYTES * packet_values(self.file.scenario.job[0])
        return (PACKET_OVERHEAD + gradient_bytes) / gradient_bytes

    def resolve(self) -> list[dict[str, Any]]:
        """What the simulator takes.

        Raises:
            ScenarioError: a node does not exist, or is of the wrong kind, or a planner finds no place; with its line.
        """
        return [self._program(index, job) for index, job in enumerate(self.file.scenario.job)]

    def _program(self, index: int, job: ScenarioJob) -> dict[str, Any]:
        program = job.program or SwitchProgram()
        values = packet_values(job)
        made = self._planned(index, job, values) if is_planned(job) else self._named(index, job, program, values)
        return {
            "name": job.name,
            "policy": made.policy,
            "streams": made.streams,
            "memory_slots": program.memory_slots or made.slots,
            "priority": program.priority,
            "packet_bytes": PACKET_OVERHEAD + LANE_BYTES * values,
            "timeout_s": program.timeout_s,
            "rounds": job.rounds,
            "workers": job.times(made.workers),
        }

    def _planned(self, index: int, job: ScenarioJob, values: int) -> Planned:
        """As a planner or a plan has it."""
        place: Location = ("job", index)
        for field in ("server", "node"):
            if job.program and getattr(job.program, field) is not None:
                who = "its plan" if job.plan else f"the planner {job.planner}"
                raise self.file.error((*place, "program", field), f"{field}: {who} says where it is summed; remove it")
        try:
            plan = AggregationPlan.read_public(self.file.path.parent / job.plan) if job.plan else None
            return streams(self.topology, job, plan, values, self.sites)
        except (PlanError, TopologyError) as bad:
            raise self.file.error((*place, "plan" if job.plan else "planner"), f"job {job.name}: {bad}") from None
        except KeyError as stranger:
            problem = f"the plan names {stranger.args[0]}, which the topology does not have"
            raise self.file.error((*place, "plan"), f"job {job.name}: {problem}") from None

    def _named(self, index: int, job: ScenarioJob, program: SwitchProgram, values: int) -> Planned:
        """One stream, at the switches that the scenario names."""
        place: Location = ("job", index, "program")
        policy, server, slots = self._required(place, program)
        names = job.workers or [worker.name for worker in self.topology.workers]
        self._check(place, policy, server, program.node, is_crowd=cohorts(len(names)) > 1)
        node = [] if program.node is None else [self._site(program.node, (*place, "node"))]
        workers = [self._site(name, ("job", index, "workers")) for name in names]
        stream = {
            "waypoints": [list(dict.fromkeys([worker, *node, self.sites[server]])) for worker in workers],
            "switches": [[site, program.base] for site in (node or self.switches)],
            "base": program.base,
            "slots": slots,
            "window": job.window,
            "fragments": math.ceil(job.bytes / LANE_BYTES / values),
        }
        taken = slots if POLICIES[policy].shares_slots else slots * cohorts(len(names))
        return Planned(policy, names, program.base + taken, [stream])

    def _required(self, place: Location, program: SwitchProgram) -> tuple[PolicyName, str, int]:
        """What a planner would say."""
        if program.policy is None or program.server is None or program.slots is None:
            absent = next(field for field in ("policy", "server", "slots") if getattr(program, field) is None)
            planners = ", ".join(SWITCH_PLANNERS)
            problem = f"{absent}: is missing; add it, or give the job one of the planners {planners}"
            raise self.file.error(place, problem)
        return program.policy, program.server, program.slots

    def _check(self, place: Location, policy: PolicyName, server: str, node: str | None, *, is_crowd: bool) -> None:
        if not self.switches:
            raise self.file.error(place, "no switch of the topology sums: give one an `aggregation_rate_bps`")
        if (node is not None) != (policy in ADDRESSED):
            needs = f"the policies {', '.join(ADDRESSED)} need a `node`, others have none"
            raise self.file.error((*place, "policy"), f"policy {policy}: {needs}")
        self._site(server, (*place, "server"))
        is_switch, needs_server = self.topology.node(server).kind == "switch", POLICIES[policy].needs_server
        if is_crowd and is_switch:
            problem = f"a switch tells {COHORT_WORKERS} workers apart; name a parameter server, or fewer workers"
            raise self.file.error((*place, "server"), f"server: {problem}")
        if is_crowd:
            return
        if needs_server is False and not is_switch:
            raise self.file.error((*place, "server"), f"server: {policy} sums at switches; name the topmost one")
        if needs_server and is_switch:
            raise self.file.error((*place, "server"), f"server: {policy} needs a parameter server, not a switch")

    def _site(self, name: str, place: Location) -> int:
        if name not in self.sites:
            raise self._unknown(name, place)
        return self.sites[name]

    def _unknown(self, name: str, place: Location) -> ScenarioError:
        known = ", ".join(list(self.sites)[:8])
        return self.file.error(place, f"{name} is not in the topology; it has {known} …")
