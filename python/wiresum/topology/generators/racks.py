"""P4INC-AOI's testbed (§VII-B)."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from wiresum.errors import TopologyError
from wiresum.topology.generators.optical import DARK_S, cross_connect
from wiresum.topology.generators.programmable import Programmable, cable, hosts, require_size

if TYPE_CHECKING:
    from wiresum.topology.model import Topology

RATE_BPS = 40e9
OXC = "oxc"


def racks(
    worker_racks: int = 2,
    server_racks: int = 2,
    hosts_per_rack: int = 4,
    rate_bps: float | None = RATE_BPS,
    circuit_rate_bps: float | None = None,
    *,
    ports: int = 0,
    dark_s: float = DARK_S,
) -> Topology:
    """Racks whose switches sum, joined by optical circuits: the first ones hold workers, the others servers.

    The paper's testbed has two racks of four workers and two racks of processors. Its cross-connect can join any two
    ports, and a job of several racks needs circuits between them: here every two racks have one, unless `ports` says
    how many fibres each rack has to a cross-connect that is part of the topology. Of the servers only the job's
    parameter server is there, at the first of their racks; the paper does not say how many others there are.

    Args:
        worker_racks: switches with workers, T1…; with one, its switch sums the job without a server.
        server_racks: switches after these; the first has the parameter server.
        hosts_per_rack: workers at each switch that has some.
        rate_bps: bit/s of each link in each direction; `none`: unlimited.
        circuit_rate_bps: bit/s of circuits; `rate_bps` where absent.
        ports: fibres from each rack to an optical switch `oxc`; 0: a circuit between every two racks, which stays.
        dark_s: time without light after an order to it.

    Raises:
        TopologyError: a kind of rack is missing, or has no hosts.

    Example:
        >>> [link.id for link in racks(1, 1, hosts_per_rack=2).links]
        ['T1-T2', 'w0-T1', 'w1-T1', 'ps-T2']
    """
    from wiresum.topology.model import Topology

    if min(worker_racks, server_racks, hosts_per_rack) < 1:
        raise TopologyError(
            f"{worker_racks} racks of {hosts_per_rack} workers and {server_racks} of servers: make it 1 or more of each"
        )
    racks_in_all, workers_in_all = worker_racks + server_racks, worker_racks * hosts_per_rack
    circuits_in_all = racks_in_all * ports if ports else racks_in_all * (racks_in_all - 1) // 2
    require_size(racks_in_all + workers_in_all + 1, circuits_in_all + workers_in_all + 1)
    names = [f"T{number}" for number in range(1, worker_racks + server_racks + 1)]
    *workers, server = hosts(worker_racks * hosts_per_rack + 1)
    circuit_bps = circuit_rate_bps or rate_bps
    if ports:
        circuits = [cable(name, OXC, circuit_bps, number) for name in names for number in range(ports)]
        crosses = [cross_connect(OXC, circuits, {"dark_s": dark_s})]
    else:
        circuits, crosses = [cable(one, other, circuit_bps) for one, other in combinations(names, 2)], []
    access = [cable(worker.name, names[index // hosts_per_rack], rate_bps) for index, worker in enumerate(workers)]
    links = [*circuits, *access, cable(server.name, names[worker_racks], rate_bps)]
    nodes = [*Programmable(1.0, None).switches(names), *workers, server, *crosses]
    return Topology(name="racks", nodes=nodes, links=links)
