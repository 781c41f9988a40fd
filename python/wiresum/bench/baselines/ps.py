"""A parameter server: every worker pushes its whole gradient to one server and pulls the sum from it.

Source: Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014. Push and pull are
pipelined in chunks, as in its library ps-lite, so both directions of every link are in use at once.

Bound: with n workers, S bytes and links of B bytes per second, the server's link carries n S each way, so no run takes
less than n S / B; at a node with a link to each worker (a star's centre) it is S / B.

Example:
    >>> from wiresum.topology.generators.servers import servers
    >>> round(PS.bound_s(servers(workers=4, servers=1, rate_bps=500e6), 6_250_000), 3)
    1.6
"""

from wiresum.bench.baselines.baseline import Baseline
from wiresum.errors import TopologyError
from wiresum.topology.model import Topology


def place(topology: Topology) -> list[str]:
    """The node of kind `ps`; else the first that sums, hosts before switches.

    Raises:
        TopologyError: no node sums.
    """
    order = {"ps": 0, "aggregator": 1, "switch": 2}
    summing = sorted(topology.summing_nodes, key=lambda node: order[node.kind])
    if not summing:
        raise TopologyError(f"topology {topology.name} has no node for a parameter server; add one of kind `ps`")
    return [summing[0].name]


PS = Baseline("ps", "Li et al., OSDI 2014", place)
