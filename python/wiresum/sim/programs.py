"""Jobs that switches with little memory sum, as the simulator takes them."""

import math
from collections.abc import Mapping
from typing import Any

from wiresum import wire
from wiresum.errors import ScenarioError
from wiresum.plan import Topology
from wiresum.plan.aggregation_plan import LANE_BYTES
from wiresum.plan.document import Location
from wiresum.plan.job import values_for_mtu
from wiresum.sim.scenario import ScenarioJob, SwitchProgram
from wiresum.sim.source import ScenarioFile

ADDRESSED = ("exclusive", "register", "register-counter")
"""Policies whose packets name the switch that sums them."""
SUMMED_AT_THE_TOP = ("pool", "cache")
"""Policies that have no parameter server."""
PACKET_OVERHEAD = wire.ETHERNET_LEN + wire.IPV4_LEN + wire.UDP_LEN + wire.HEADER_LEN + wire.SWITCH_HEADER_LEN
"""Bytes of a packet beside its values."""


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

    def resolve(self) -> list[dict[str, Any]]:
        """What the simulator takes.

        Raises:
            ScenarioError: a node does not exist, or is of the wrong kind; with its line.
        """
        pairs = [(job, job.program) for job in self.file.scenario.job if job.program]
        return [self._program(index, job, program) for index, (job, program) in enumerate(pairs)]

    def _program(self, index: int, job: ScenarioJob, program: SwitchProgram) -> dict[str, Any]:
        place: Location = ("job", index, "program")
        self._check(place, program)
        node = [] if program.node is None else [self._site(program.node, (*place, "node"))]
        server = self._site(program.server, (*place, "server"))
        names = job.workers or [worker.name for worker in self.topology.workers]
        workers = [self._site(name, ("job", index, "workers")) for name in names]
        values = values_for_mtu(job.mtu_bytes - wire.SWITCH_HEADER_LEN)
        return {
            "name": job.name,
            "policy": program.policy,
            "waypoints": [list(dict.fromkeys([worker, *node, server])) for worker in workers],
            "switches": self.switches,
            "node": node[0] if node else None,
            "memory_slots": program.memory_slots or program.base + program.slots,
            "base": program.base,
            "slots": program.slots,
            "window": job.window,
            "priority": program.priority,
            "fragments": math.ceil(job.bytes / LANE_BYTES / values),
            "packet_bytes": PACKET_OVERHEAD + LANE_BYTES * values,
            "timeout_s": program.timeout_s,
            "rounds": job.rounds,
            "workers": [
                {
                    "start": job.starts.get(name, job.start).model_dump(),
                    "compute": job.computes.get(name, job.compute).model_dump(),
                }
                for name in names
            ],
        }

    def _check(self, place: Location, program: SwitchProgram) -> None:
        if not self.switches:
            raise self.file.error(place, "no switch of the topology sums: give one an `aggregation_rate_bps`")
        if (program.node is not None) != (program.policy in ADDRESSED):
            needs = f"the policies {', '.join(ADDRESSED)} need a `node`, others have none"
            raise self.file.error((*place, "policy"), f"policy {program.policy}: {needs}")
        self._site(program.server, (*place, "server"))
        is_switch = self.topology.node(program.server).kind == "switch"
        if program.policy in SUMMED_AT_THE_TOP and not is_switch:
            raise self.file.error(
                (*place, "server"), f"server: {program.policy} sums at switches; name the topmost one"
            )
        if program.policy not in (*SUMMED_AT_THE_TOP, "segment") and is_switch:
            raise self.file.error(
                (*place, "server"), f"server: {program.policy} needs a parameter server, not a switch"
            )

    def _site(self, name: str, place: Location) -> int:
        if name not in self.sites:
            raise self._unknown(name, place)
        return self.sites[name]

    def _unknown(self, name: str, place: Location) -> ScenarioError:
        known = ", ".join(list(self.sites)[:8])
        return self.file.error(place, f"{name} is not in the topology; it has {known} …")
