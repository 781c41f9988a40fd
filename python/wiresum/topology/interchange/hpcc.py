"""The text format of HPCC's simulator, which SimAI and ASTRA-sim's ns-3 backend share.

Line 1 is `nodes switches links` (HPCC), or `nodes gpus_per_server nvswitches switches links gpu_type` (SimAI). Line 2
has the numbers of the switches. Then comes a line for each link: `source target rate delay error_rate`, as
`0 4 100Gbps 0.0005ms 0`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from wiresum.errors import TopologyError
from wiresum.topology.model import Link, Node, Topology

HPCC_FIELDS, SIMAI_FIELDS = 3, 6
LINK_FIELDS = 5
RATES = {"bps": 1.0, "kbps": 1e3, "mbps": 1e6, "gbps": 1e9, "tbps": 1e12}
DELAYS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def from_hpcc(text: str, name: str) -> Topology:
    r"""Reads it. Nodes that are no switches are workers n0…; parallel links stay apart.

    Raises:
        TopologyError: a line is not of this form; the message names it.

    Example:
        >>> made = from_hpcc("3 1 2\n2\n0 2 100Gbps 1us 0\n1 2 25Gbps 0.001ms 0.01\n", "two")
        >>> [(link.source, link.target, link.bandwidth_bps, link.loss) for link in made.links]
        [('n0', 'n2', 100000000000.0, 0.0), ('n1', 'n2', 25000000000.0, 0.01)]
    """
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if len(lines) < 1:
        raise TopologyError("the HPCC topology is empty; its first line has `nodes switches links`")
    nodes, switches, links = _header(*lines[0])
    listed = lines[1 : 1 + bool(switches)]
    numbers = {_whole(field, number) for number, fields in listed for field in fields}
    if len(numbers) != switches:
        raise TopologyError(f"line 1 says {switches} switches, and line 2 names {len(numbers)}; correct one of them")
    rest = lines[1 + len(listed) :]
    if len(rest) < links:
        raise TopologyError(f"line 1 says {links} links, and there are {len(rest)}; correct one of them")
    return Topology.build(
        name=name,
        nodes=[Node(name=f"n{i}", kind="switch" if i in numbers else "worker") for i in range(nodes)],
        links=[_link(index, number, fields, nodes) for index, (number, fields) in enumerate(rest[:links])],
    )


def _header(number: int, fields: Sequence[str]) -> tuple[int, int, int]:
    """Nodes, switches (NVSwitches included), links."""
    if len(fields) == HPCC_FIELDS:
        nodes, switches, links = (_whole(field, number) for field in fields)
        return nodes, switches, links
    if len(fields) == SIMAI_FIELDS:
        nodes, _, nv_switches, switches, links = (_whole(field, number) for field in fields[:-1])
        return nodes, nv_switches + switches, links
    raise TopologyError(f"line {number} has {len(fields)} fields; HPCC's has {HPCC_FIELDS}, SimAI's {SIMAI_FIELDS}")


def _link(index: int, number: int, fields: Sequence[str], nodes: int) -> Link:
    if len(fields) != LINK_FIELDS:
        raise TopologyError(f"line {number} has {len(fields)} fields; a link has `source target rate delay error_rate`")
    ends = [_whole(field, number) for field in fields[:2]]
    if max(ends) >= nodes:
        raise TopologyError(f"line {number} names node {max(ends)}; line 1 says that there are {nodes}, from 0 on")
    return Link(
        id=f"l{index}",
        source=f"n{ends[0]}",
        target=f"n{ends[1]}",
        bandwidth_bps=_quantity(fields[2], RATES, number),
        delay_s=_quantity(fields[3], DELAYS, number),
        loss=_quantity(fields[4] + "x", {"x": 1.0}, number),
    )


def _whole(text: str, number: int) -> int:
    if not text.isdecimal():
        raise TopologyError(f"line {number}: {text} is not a whole number; correct it")
    return int(text)


def _quantity(text: str, units: dict[str, float], number: int) -> float:
    match = re.fullmatch(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]+)", text)
    if match is None or match[2].lower() not in units:
        raise TopologyError(f"line {number}: {text} is no quantity; give one in {', '.join(units)}")
    return float(match[1]) * units[match[2].lower()]
