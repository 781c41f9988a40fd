"""Trees along which switches of several units sum a job, as schedulers have them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wiresum import _native

Edge = tuple[str, str]
"""A unit, and the one that it sends its sum to."""
BY_SWITCH = 1
"""Index of sums at switches among the modes of a transfer; the other is the server."""


def trees(instance: Mapping[str, Any]) -> dict[int, list[Edge]]:
    """The edges of each job's tree, by the job's number; jobs that switches cannot sum are absent.

    Args:
        instance: with `trees`, whose two directions of a circuit count apart (`paper` is false).
    """
    problem = json.loads(_native.schedule_problem(json.dumps(instance)))
    names = [unit["name"] for unit in instance["units"]]
    found = {}
    for transfer in problem["transfers"]:
        mode = transfer["modes"][BY_SWITCH]
        if mode is not None:
            number = instance["jobs"][transfer["job"]]["id"]
            found[number] = [_edge(crossing, problem["pairs"], names) for crossing in mode["crossings"]]
    return found


def _edge(crossing: Mapping[str, int], pairs: list[list[int]], names: list[str]) -> Edge:
    """Lane 0 leads to the second unit of a pair, lane 1 to the first."""
    ends = [names[unit] for unit in pairs[crossing["pair"]]]
    return (ends[1], ends[0]) if crossing["lane"] else (ends[0], ends[1])
