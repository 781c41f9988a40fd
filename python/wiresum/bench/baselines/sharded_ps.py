"""Sharded parameter servers: each of several servers sums an equal part of the gradient.

Source: Jiang et al., "A Unified Architecture for Accelerating Distributed DNN Training in Heterogeneous GPU/CPU
Clusters" (BytePS), OSDI 2020. Its servers run on hosts of their own, or beside the workers.

Bound: with n workers, S bytes, links of B bytes per second and k servers on hosts of their own, a worker's link carries
S and a server's n S / k each way, so no run takes less than max(1, n / k) S / B. With a server beside each worker, a
link carries the worker's parts for n - 1 others and the sums of one part for n - 1 others: 2 (n - 1) / n S / B, as a
ring's.

Example:
    >>> from wiresum.topology.generators.servers import servers
    >>> from wiresum.topology.generators.star import star
    >>> round(SHARDED_PS.bound_s(servers(workers=4, servers=2, rate_bps=500e6), 6_250_000), 3)
    0.8
    >>> round(SHARDED_PS.bound_s(star(workers=4, rate_bps=500e6), 6_250_000), 3)
    0.6
"""

from wiresum.bench.baselines.baseline import Baseline
from wiresum.topology.model import Topology


def place(topology: Topology) -> list[str]:
    """Every host that sums, if there are several; else every worker."""
    hosts = [node.name for node in topology.summing_nodes if node.kind != "switch"]
    return hosts if len(hosts) > 1 else [worker.name for worker in topology.workers]


SHARDED_PS = Baseline("sharded_ps", "Jiang et al., OSDI 2020", place)
