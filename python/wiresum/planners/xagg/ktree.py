"""A k-ary tree over servers (XAgg §V, Eq. 2)."""

import math
from collections.abc import Sequence

from wiresum.planners.xagg.selection import Server


def height(workers: int, k: int) -> int:
    """Levels of a k-ary tree, that of the workers and the root included: ⌈1 + log_k w⌉, at least 2 (Eq. 2).

    By whole numbers, as logarithms are not exact at powers of k.

    Example:
        >>> height(7, 3), height(125, 5), height(126, 5)
        (3, 4, 5)
    """
    levels, reach = 2, k
    while reach < workers:
        levels, reach = levels + 1, reach * k
    return levels


def child_count(bandwidth_bps: float, first_bps: float, k: int) -> int:
    """How many children a server serves at the reference rate b = B₁/k: ⌈Bᵢ/b − ½⌉, 1 to k.

    Example:
        >>> [child_count(rate, 100e9, 5) for rate in (100e9, 50e9, 30e9, 10e9)]
        [5, 2, 1, 1]
    """
    return max(1, min(k, math.ceil(k * bandwidth_bps / first_bps - 0.5)))


def k_tree(workers: Sequence[str], servers: Sequence[Server], root: str, k: int) -> dict[str, str | None]:
    """The tree, from the workers up: each server takes its children from what the layer below left.

    A server for which one child would be left is not used; that child goes up a layer. When servers run out, so do
    all others. So the root may have more than k children, and every server used is better than those left.

    Takes O((w + s) × height).

    Args:
        workers: similar ones side by side.
        servers: best first, without the root.
        root: the node at the top.
        k: most children of a server, at least 2.

    Returns:
        The parent of each worker and server used; None for the root.

    Example:
        >>> servers = [Server(name, 10e9, 1, 0.0) for name in ("S1", "S2")]
        >>> k_tree(["a", "b", "c", "d", "e"], servers, "PS", k=2)
        {'a': 'S1', 'b': 'S1', 'c': 'S2', 'd': 'S2', 'e': 'PS', 'S1': 'PS', 'S2': 'PS', 'PS': None}
    """
    parents: dict[str, str | None] = {}
    layer = list(workers)
    free = list(servers)
    for _ in range(height(len(workers), k) - 2):
        layer = _raise_layer(layer, free, servers, k, parents)
    parents |= dict.fromkeys(layer, root)
    order = [*workers, *(one.name for one in servers if one.name in parents)]
    return {name: parents[name] for name in order} | {root: None}


def _raise_layer(
    layer: list[str], free: list[Server], servers: Sequence[Server], k: int, parents: dict[str, str | None]
) -> list[str]:
    """Puts servers above a layer, taking them from `free`; returns the layer above."""
    above: list[str] = []
    while len(layer) > 1 and free:
        server = free.pop(0)
        count = child_count(server.bandwidth_bps, servers[0].bandwidth_bps, k)
        if count > 1:
            taken, layer = layer[:count], layer[count:]
            parents |= dict.fromkeys(taken, server.name)
            above.append(server.name)
    return [*above, *layer]
