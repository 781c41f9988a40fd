"""Part of `wiresum bench planners`: how soon an answer follows a failure, and how much moves."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from wiresum.adjust import keep
from wiresum.bench.result import Result
from wiresum.plan.assignment import Assignment, Instance
from wiresum.topology.model import Topology


def failures(found: Assignment) -> Iterator[tuple[str, Topology]]:
    """Networks in which the switch that holds most does not sum, has a link less, or half of its memory."""
    instance = found.instance
    topology, node = instance.topology, instance.name(int(found.memory_bytes.argmax()))
    of_node = next(link.id for link in topology.links if node in {link.source, link.target})
    links = [link for link in topology.links if link.id != of_node]
    half = int(np.ceil(found.memory_bytes.max() / 2))
    yield "a switch fails", _with_node(topology, node, aggregation_rate_bps=0.0)
    yield "a link fails", topology.model_copy(update={"links": links})
    yield "a switch loses half of its memory", _with_node(topology, node, memory_bytes=half)


def measure(name: str, found: Assignment, topology: Topology) -> Result:
    """Re-planning from the changed topology on; how much of all gradients is summed elsewhere, and what it costs."""
    began_s = time.monotonic()
    kept = keep(found, Instance.of(topology, found.instance.job))
    seconds = time.monotonic() - began_s
    over = kept.assignment.solution.value / found.solution.value
    return Result(name, "s", [seconds], {"moved_share": kept.moved_share, "cost_over_before": over})


def _with_node(topology: Topology, name: str, **fields: float) -> Topology:
    nodes = [node.model_copy(update=fields) if node.name == name else node for node in topology.nodes]
    return topology.model_copy(update={"nodes": nodes})
