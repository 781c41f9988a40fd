"""A network as a picture: how loaded its links are, and what is summed where."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from wiresum.errors import SupportError
from wiresum.picture import BLUE, GREEN, ORANGE, PALE, VERMILION, picture
from wiresum.plan.assignment.traffic import Traffic
from wiresum.topology.graph import UNREACHABLE, Floats, Graph, Ints

MAX_NODES = 600
"""A picture with more nodes shows nothing."""
MAX_LABELS = 60
"""Names and sums are written beside so many nodes at most; those that sum come first."""
SIZE_INCHES = (12, 6)
BUSIEST = 0.999
"""Links that are busy for so much of the busiest one's time are bottlenecks, too."""
ARC_POINTS = 33
ARC_HEIGHT = 0.25
"""Height of a link between nodes of one row, over its length."""
ABREAST = 0.06
"""Width between the middles of links that join the same two nodes, over their length: each port is a line."""


def draw(traffic: Traffic, title: str, path: Path) -> None:
    """Draws hosts below, and switches above them by their distance from the hosts; roots are marked.

    A link is the darker and the wider the longer it is busy, the busiest is red, and each says its bytes on the way up
    and its share of the busiest link's time if there are few. A node that sums has the bytes that it adds beside it;
    others are named where there are few nodes.

    Raises:
        SupportError: the network is too large, matplotlib is not installed, or the file cannot be written.
    """
    graph = traffic.graph
    if graph.node_count > MAX_NODES:
        raise SupportError(
            f"{graph.node_count} nodes are more than a picture shows ({MAX_NODES}); draw a smaller network"
        )
    with picture(path, figsize=SIZE_INCHES) as (_, axes):
        places = _places(graph)
        _draw_links(axes, traffic, places)
        _draw_nodes(axes, traffic, places)
        axes.set_axis_off()
        axes.set_title(title, fontsize=10)


def _places(graph: Graph) -> Floats:
    """(nodes, 2) coordinates: a row for each distance from the nearest host, in the topology's order."""
    hosts = np.flatnonzero(~graph.forwards)
    tier = graph.hops_to(hosts).min(axis=0) if len(hosts) else np.zeros(graph.node_count)
    tier = np.where(tier == UNREACHABLE, 1, tier)
    places = np.zeros((graph.node_count, 2))
    for level in np.unique(tier):
        members = np.flatnonzero(tier == level)
        places[members, 0] = (np.arange(len(members)) + 0.5) / len(members)
        places[members, 1] = level
    return places


def _draw_links(axes: Any, traffic: Traffic, places: Floats) -> None:
    up = traffic.arc_bytes.reshape(-1, 2).sum(axis=1)
    share, aside = _shares(traffic), abreast(traffic.graph)
    for link in np.argsort(share):
        load = share[link]
        ends = places[[traffic.graph.source[2 * link], traffic.graph.target[2 * link]]]
        line = _line(ends, aside[link])
        colour = VERMILION if load > BUSIEST else str(0.9 - 0.9 * load)
        axes.plot(*line.T, color=colour, linestyle="-", linewidth=0.4 + 4 * load, zorder=1)
        if load and np.count_nonzero(up) <= MAX_LABELS:
            text = f"{up[link] / 1e6:,.0f} MB, {load:.0%}"
            box = {"boxstyle": "round,pad=0.1", "color": "white", "alpha": 0.8}
            axes.annotate(text, line[len(line) // 3], fontsize=5, ha="center", color="black", bbox=box)
    axes.plot([], [], color=VERMILION, linestyle="-", linewidth=4, label="busiest link")


def _shares(traffic: Traffic) -> Floats:
    """(links,) busy time of the fuller direction, over that of the busiest link; bytes where nothing has a rate."""
    busy = traffic.busy_seconds.reshape(-1, 2).max(axis=1)
    if not busy.max(initial=0.0) > 0:
        busy = traffic.arc_bytes.reshape(-1, 2).sum(axis=1)
    shares: Floats = busy / max(float(busy.max(initial=0.0)), np.finfo(float).tiny)
    return shares


def abreast(graph: Graph) -> Floats:
    """(links,) place of each among those that join the same two nodes: 0 if there is one, −½ and ½ of two."""
    ends = [frozenset((int(graph.source[arc]), int(graph.target[arc]))) for arc in range(0, graph.arc_count, 2)]
    counts, seen = Counter(ends), Counter[frozenset[int]]()
    places = []
    for pair in ends:
        places.append(seen[pair] - (counts[pair] - 1) / 2)
        seen[pair] += 1
    return np.array(places)


def _line(ends: Floats, aside: float) -> Floats:
    """(points, 2) of a link: straight if it is alone, or an arc within a row, which would run through those between."""
    (begin, end), along = ends, np.linspace(0, 1, ARC_POINTS)[:, np.newaxis]
    is_level = begin[1] == end[1]
    length = abs(end[0] - begin[0]) if is_level else 1.0
    bend = np.array([0.0, (ARC_HEIGHT + ABREAST * aside) * length] if is_level else [ABREAST * aside, 0.0])
    line: Floats = begin + along * (end - begin) + along * (1 - along) * 4 * bend
    return line


def _draw_nodes(axes: Any, traffic: Traffic, places: Floats) -> None:
    graph, adds = traffic.graph, traffic.ingress_bytes
    senders = np.unique(traffic.source)
    kinds = [("idle, or forwards", np.arange(graph.node_count), PALE, 15), ("sends", senders, BLUE, 20)]
    kinds += [("sums", np.flatnonzero(adds), ORANGE, 60), ("root", _roots(traffic), GREEN, 90)]
    for label, members, colour, size in kinds:
        axes.scatter(*places[members].T, s=size, color=colour, label=label, zorder=2)
    for node in np.argsort(-adds)[:MAX_LABELS]:
        if adds[node] or graph.node_count <= MAX_LABELS:
            sums = f"\n{adds[node] / 1e6:,.0f} MB" if adds[node] else ""
            text = f"{graph.names[node]}{sums}"
            box = {"boxstyle": "round,pad=0.1", "color": "white", "alpha": 0.7}
            beside = {"textcoords": "offset points", "xytext": (0, 8), "ha": "center", "fontsize": 6, "bbox": box}
            axes.annotate(text, places[node], **beside)
    axes.legend(fontsize=7, loc="upper right")


def _roots(traffic: Traffic) -> Ints:
    """Nodes that receive and send nothing on: one for each tree."""
    sinks: Ints = np.setdiff1d(traffic.target, traffic.source)
    return sinks if len(sinks) else np.array([traffic.root])
