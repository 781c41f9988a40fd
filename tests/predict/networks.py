"""Networks that the tests of the prediction share."""

from wiresum.topology.model import Link, Node, Topology

GBIT = 1e9


def one_switch(workers: dict[str, float], servers: dict[str, float], adding_bps: float = 1e12) -> Topology:
    """Hosts with one link each, of these Gbit/s, to a switch that can sum; the last server is a parameter server."""
    *aggregators, root = servers
    nodes = [Node(name=name, kind="worker") for name in workers]
    nodes += [Node(name=name, kind="aggregator", aggregation_rate_bps=adding_bps) for name in aggregators]
    nodes += [Node(name=root, kind="ps", aggregation_rate_bps=adding_bps)]
    nodes += [Node(name="fabric", kind="switch", aggregation_rate_bps=adding_bps)]
    links = [
        Link(id=name, source=name, target="fabric", bandwidth_bps=rate * GBIT)
        for name, rate in (workers | servers).items()
    ]
    return Topology(name="one-switch", nodes=nodes, links=links).with_addresses()


def fig1() -> Topology:
    """XAgg's motivation example (§II-A): four workers and a parameter server, all 10 Gbit/s but W2 with 5."""
    return one_switch({"W1": 10, "W2": 5, "W3": 10, "W4": 10}, {"S1": 10, "PS": 10})
