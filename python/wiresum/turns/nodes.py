"""Switches and servers of a network, to which jobs come and from which they go while others run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from wiresum.deploy import control
from wiresum.errors import ScheduleError
from wiresum.plan.aggregation_plan import AggregationPlan, PlanNode
from wiresum.plan.members import NodeChild


class Nodes:
    """Control sockets of nodes, by name.

    A socket of another host is one that a tunnel brings here, as `ssh -L` does.
    """

    def __init__(self, sockets: Mapping[str, Path]) -> None:
        self.sockets = dict(sockets)

    def require(self, plans: Iterable[AggregationPlan]) -> None:
        """Asserts that all nodes of plans can be asked.

        Raises:
            ScheduleError: one has no socket.
        """
        for node in (node for plan in plans for node in plan.nodes):
            if node.name not in self.sockets:
                raise ScheduleError(f"node {node.name} has no control socket; name it, as --control {node.name}=PATH")

    def serve(self, plan: AggregationPlan) -> None:
        """Has all nodes of a plan serve its job.

        Raises:
            ControlError: one refuses, or does not answer.
        """
        for node in plan.nodes:
            content = json.loads(plan.held_by(node.id).to_json())
            control.ask(self.sockets[node.name], "add", plan=content, quota={})

    def readdress(self, plan: AggregationPlan) -> None:
        """Has all nodes of a plan reach each other at its addresses, while its job runs.

        Those go first who are nearer to where sums are complete: a node refuses workers whose packets come from an
        address that it does not know, which ends their job, and the caller may die between two nodes.

        Raises:
            ControlError: one refuses, as switches in the kernel do, or does not answer.
        """
        for node in from_root(plan):
            content = json.loads(plan.held_by(node.id).to_json())
            control.ask(self.sockets[node.name], "readdress", plan=content)

    def dismiss(self, plan: AggregationPlan) -> None:
        """Has all nodes of a plan serve its job no more.

        Raises:
            ControlError: one did not serve it, or does not answer.
        """
        for node in plan.nodes:
            control.ask(self.sockets[node.name], "remove", job=plan.job.id)

    def keep(self, plans: Iterable[AggregationPlan], wanted: Collection[int], gone: Collection[int] = ()) -> set[int]:
        """Has all nodes serve none of these plans' jobs but those wanted: a driver before may have died in their turns.

        Args:
            plans: whose jobs are ours.
            wanted: jobs that go on.
            gone: jobs that were ours, and have no plan any more.

        Returns:
            Wanted jobs that all of their nodes serve. Others are served nowhere.

        Raises:
            ControlError: a node does not answer.
        """
        there = {name: self.served(name) for name in self.sockets}
        known = {plan.job.id: plan for plan in plans}
        kept = {job for job in set(wanted) & set(known) if all(job in there[node.name] for node in known[job].nodes)}
        for name, jobs in there.items():
            for job in sorted(jobs & (set(known) | set(gone)) - kept):
                control.ask(self.sockets[name], "remove", job=job)
        return kept

    def served(self, node: str) -> set[int]:
        """Jobs of a node."""
        return {job["job"] for job in control.ask(self.sockets[node], "status")["jobs"]}


def from_root(plan: AggregationPlan) -> list[PlanNode]:
    """Nodes by their distance from where sums are complete, over the links of a plan that names some."""
    assert plan.fabric is not None, "only plans of switches name links"
    beside: defaultdict[int, set[int]] = defaultdict(set)
    for link in plan.fabric.links:
        ends = {end.at.node for end in link.ends if isinstance(end.at, NodeChild)}
        for end in ends:
            beside[end] |= ends - {end}
    legs = plan.streams[-1].legs
    found = sorted({leg.parent for leg in legs} - {leg.child.node for leg in legs if isinstance(leg.child, NodeChild)})
    for node in found:
        found += sorted(beside[node] - set(found))
    return sorted(plan.nodes, key=lambda node: found.index(node.id))
