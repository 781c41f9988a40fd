"""What the failure of a step means, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from wiresum.plan.aggregation_plan import AggregationPlan, PlanNode
from wiresum.selftest.trial import JOIN, WINDOW, Step
from wiresum.selftest.way import Way

NODE = re.compile(r"\bnode (\d+)\b")
"""How the engine's errors name nodes."""
LOST_LENGTH = ("no contribution to fragment", "no result arrived")
"""What the engine's errors say where a node answers questions, and values or their sums are missing."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        node: name of the node; empty where none is to blame.
        what: is wrong.
        remedy: what to do.
    """

    node: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.node + ': ' if self.node else ''}{self.what}; {self.remedy}"


def of_way(node: PlanNode, way: Way) -> Finding | None:
    """What is wrong before any packet of the job is sent."""
    if way.problem:
        return Finding(node.name, f"there is no way to {node.address} ({way.problem})", "look at address and route")
    if way.is_refused:
        return Finding(node.name, f"nothing listens at {node.address}", f"start `wiresum-node --node {node.id}` there")
    if way.is_too_narrow:
        return Finding(
            node.name,
            f"packets of {way.needed_bytes} bytes do not fit the MTU of {way.mtu_bytes} from {way.source}",
            f"raise the MTU of the links, or plan with `--mtu {way.mtu_bytes}`",
        )
    return None


def of_step(plan: AggregationPlan, ways: Mapping[int, Way], step: Step) -> Finding:
    """What the failure of a step means."""
    node = _blamed(plan, step.problem)
    if node is None:
        return Finding("", step.problem, "run `wiresum doctor` on this host, and look at the nodes' logs")
    if step.name == JOIN:
        return _of_joining(node, ways[node.id], step.problem)
    if step.name == WINDOW:
        return _of_bursts(node)
    if "silent" in step.problem:
        return _of_silence(node)
    if any(sign in step.problem for sign in LOST_LENGTH):
        return _of_length(node, ways[node.id])
    return Finding(node.name, f"{step.name}: {step.problem}", "look at its log, and at `wiresum node status` there")


def _blamed(plan: AggregationPlan, problem: str) -> PlanNode | None:
    named = NODE.search(problem)
    return next((node for node in plan.nodes if named and node.id == int(named[1])), None)


def _of_joining(node: PlanNode, way: Way, problem: str) -> Finding:
    if "newer run" in problem:
        return Finding(
            node.name,
            "it answers, and plan and secret are right; but a training has the job, or had it last",
            "give --take-over if none is running: it would end",
        )
    if "did not answer" not in problem:
        return Finding(node.name, problem.partition("refused this worker: ")[2] or problem, "then try again")
    if not way.is_host_there:
        return Finding(node.name, f"its host does not answer at {node.address}", "look at address, link and firewall")
    return Finding(
        node.name,
        f"its host is there, and the daemon at {node.address} takes hellos of this job without an answer",
        "give it keys of this plan's secret (`wiresum keys`), serve this job there, or open the firewall for the port",
    )


def _of_silence(node: PlanNode) -> Finding:
    """The node has welcomed every seat over its socket, so what is lost are answers to packets of values."""
    if node.engine in {"xdp", "af_xdp"}:
        return Finding(
            node.name,
            "it welcomes this host, but no answer of its XDP program arrives; on veth that is so where the peer of the "
            "node's interface has no XDP program",
            "run `wiresum testbed pass PEER` where the peer is, or start the node with `--engine udp`",
        )
    return Finding(node.name, "it welcomes this host, but answers no values", "look at its log, and at filters between")


def _of_length(node: PlanNode, way: Way) -> Finding:
    """Questions and answers, which are short, pass; the first packets of full length do not."""
    return Finding(
        node.name,
        f"it answers, but packets of {way.needed_bytes} bytes get lost; most likely the MTU of a bridge or switch "
        "between is smaller",
        "raise it, or plan with a smaller `--mtu`",
    )


def _of_bursts(node: PlanNode) -> Finding:
    """Single packets of full length have passed."""
    return Finding(
        node.name,
        "packets that come close together get lost; most likely an offload merges them",
        "try `ethtool -K IF gro off lro off` at the node, and look at `dropped` in `wiresum node status` there",
    )
