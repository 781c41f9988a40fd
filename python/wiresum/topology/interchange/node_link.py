"""Node-link JSON, as networkx writes it: `edges` since version 3.4, `links` before; both are read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from wiresum.errors import TopologyError
from wiresum.topology.model import Link, Node, Topology

EDGES = ("edges", "links")
ENDS = ("source", "target")
NODE_FIELDS = set(Node.model_fields) - {"name"}
LINK_FIELDS = set(Link.model_fields) - {"id", *ENDS}


def from_node_link(text: str, name: str) -> Topology:
    """Reads node-link JSON.

    Attributes of nodes and links that have the names of `spec/topology.md` are taken, others left. A node without
    `kind` is a switch if it has several neighbours, else a worker. Of a directed graph, opposite edges are one link.

    Raises:
        TopologyError: it is not node-link JSON, or not a topology; the message names the field.

    Example:
        >>> text = '{"nodes": [{"id": "a"}, {"id": "b"}, {"id": 3}], "links": [{"source": "a", "target": 3},'
        >>> made = from_node_link(text + '{"source": "b", "target": 3, "bandwidth_bps": 1e9}]}', "pair")
        >>> [(node.name, node.kind) for node in made.nodes]
        [('a', 'worker'), ('b', 'worker'), ('3', 'switch')]
    """
    graph = _read(text)
    edges = next((graph[key] for key in EDGES if key in graph), None)
    if not isinstance(graph.get("nodes"), list) or not isinstance(edges, list):
        raise TopologyError("node-link JSON has a list `nodes`, and a list `edges` (or `links`); add what is missing")
    ends = [tuple(str(_field(edge, end, f"edges[{i}]")) for end in ENDS) for i, edge in enumerate(edges)]
    neighbours = Counter(node for pair in {frozenset(pair) for pair in ends} for node in pair)
    nodes = [_node(node, f"nodes[{i}]", neighbours) for i, node in enumerate(graph["nodes"])]
    return Topology.build(name=name, nodes=nodes, links=_links(edges, ends, bool(graph.get("directed"))))


def to_node_link(topology: Topology) -> str:
    """Writes node-link JSON with all attributes, as a multigraph, as several links may join two nodes."""
    graph = {
        "directed": False,
        "multigraph": True,
        "graph": {"name": topology.name},
        "nodes": [{"id": node.name, **node.model_dump(exclude={"name"}, exclude_none=True)} for node in topology.nodes],
        "edges": [{"key": link.id, **link.model_dump(exclude={"id"}, exclude_none=True)} for link in topology.links],
    }
    return json.dumps(graph, indent=2) + "\n"


def _read(text: str) -> dict[str, Any]:
    try:
        graph = json.loads(text)
    except (ValueError, RecursionError) as bad:
        raise TopologyError(
            f"node-link JSON cannot be read: {bad}; give a file that networkx.node_link_data wrote"
        ) from None
    if not isinstance(graph, dict):
        raise TopologyError("node-link JSON is an object with `nodes` and `edges`; this is something else")
    return graph


def _field(entry: Any, field: str, where: str) -> Any:
    if not isinstance(entry, Mapping) or field not in entry:
        raise TopologyError(f"node-link JSON: {where}.{field} is missing; add it")
    return entry[field]


def _node(entry: Any, where: str, neighbours: Counter[str]) -> dict[str, Any]:
    name = str(_field(entry, "id", where))
    kind = "switch" if neighbours[name] > 1 else "worker"
    return {"name": name, "kind": kind, **{key: entry[key] for key in NODE_FIELDS & entry.keys()}}


def _links(edges: list[Any], ends: list[tuple[str, ...]], directed: bool) -> list[dict[str, Any]]:
    """Links; in a directed graph, the n-th edge from a to b and the n-th from b to a are the directions of one."""
    links: list[dict[str, Any]] = []
    waiting: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for number, (edge, pair) in enumerate(zip(edges, ends, strict=True)):
        forward = {key: edge[key] for key in LINK_FIELDS & edge.keys()}
        opposite = waiting.get(pair[::-1])
        if directed and opposite:
            back = {f"reverse_{key}": value for key, value in forward.items() if not key.startswith("reverse_")}
            opposite.pop(0).update(back)
            continue
        key = edge.get("key", edge.get("id"))
        identity = key if isinstance(key, str) else f"l{number}"
        links.append({"id": identity, "source": pair[0], "target": pair[1], **forward})
        waiting.setdefault(pair, []).append(links[-1])
    return links
