"""A sparse job on a testbed: its servers of tables at the topology's servers, and hot rows summed by a switch."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal

from wiresum.deploy.hosts import free_ports
from wiresum.deploy.tables import Command, TableDaemons, daemon
from wiresum.document import read_json, read_text
from wiresum.errors import PlanError, TestbedError, TraceError
from wiresum.plan.tables import Table, Tables
from wiresum.predict.sparse import SparseNetwork
from wiresum.sparse.hot import empty_map
from wiresum.sparse.job import sparse_job
from wiresum.testbed.bed import Testbed
from wiresum.topology.model import Topology

RowsEngine = Literal["udp", "xdp"]
"""What sums hot rows at a switch."""
FIRST_PORT = 5748
"""Port of the first daemon; 5747 is the aggregators'."""
TRACKING = {"name": "decaying", "period": 10}
"""How rows become hot where nobody has said which: every tenth round, by counts that decay."""
UDP_OVERHEAD_BYTES = 28
"""Headers of IPv4 and UDP."""


@dataclass(frozen=True)
class SparseJob:
    """What a sparse job has before it has addresses.

    Attributes:
        tables: those of a plan, or as `wiresum.torch.sparse.job_tables` makes them.
        hot: text of the hot map; None if no rows are hot.
        tracking: how the hot rows follow popularity; None if they stay as they are.
    """

    tables: Sequence[Table | Mapping[str, Any]]
    hot: str | None = None
    tracking: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, tables: Path, hot: Path | None = None, hot_rows: int | None = None) -> SparseJob:
        """Reads tables, and the hot map if there is one.

        Args:
            tables: path of a list as `job_tables` makes it, or of a file as `wiresum sparse tables` prints it.
            hot: path of a hot map.
            hot_rows: how many rows are hot, instead of a map: those that are touched most while the job runs.

        Raises:
            PlanError: the tables cannot be read, or rows that may be hot have several lengths.
            TraceError: the hot map cannot be read.
        """
        content = read_json(tables, "tables", PlanError)
        map_text = read_text(hot, "hot map", TraceError) if hot else None
        read = content if isinstance(content, list) else Tables.read(tables).tables
        if hot_rows is None:
            return cls(read, map_text)
        lengths = {table.dimension if isinstance(table, Table) else table["dim"] for table in read}
        if len(lengths) > 1:
            raise PlanError(f"tables {tables}: hot rows have one length, not {sorted(lengths)}; leave --hot-rows out")
        return cls(read, empty_map(lengths.pop(), hot_rows), TRACKING)


def daemons(bed: Testbed, job: SparseJob, mtu_bytes: int, *, in_kernel: bool = False) -> TableDaemons:
    """The daemons of a sparse job, to be started on a testbed that is up.

    Servers of tables are at all servers of the topology, or where it has none, beside every worker. Hot rows are summed
    by the switches where their ways to the nearest one for all workers meet.

    Args:
        bed: where they run.
        job: what they serve.
        mtu_bytes: of the links.
        in_kernel: hot rows are summed by XDP at a switch whose ports were made for it, but where others are beneath it.

    Raises:
        TestbedError: rows are hot, and no switch of the topology sums; or they are not to be summed as asked for.
    """
    servers = servers_of_tables(bed.topology)
    switches = _switches(bed) if job.hot else []
    if in_kernel and (bed.why_loopback or not switches):
        raise TestbedError("the kernel sums hot rows at a switch in a namespace: give a hot map, and no --loopback")
    nodes = [*servers, *switches]
    ports = free_ports(len(nodes), socket.SOCK_DGRAM) if bed.why_loopback else count(FIRST_PORT)
    addresses = [f"{bed.address(node)}:{port}" for node, port in zip(nodes, ports, strict=False)]
    text = sparse_job(
        job.tables,
        len(bed.workers),
        addresses[: len(servers)],
        addresses[len(servers) :],
        tree=_tree(bed.topology, switches),
        hot=job.hot,
        tracking=None if job.tracking is None else dict(job.tracking),
        packet_bytes=mtu_bytes - UDP_OVERHEAD_BYTES,
    )
    return TableDaemons(bed, text, nodes, over_xdp(bed, nodes, lowest_switches(bed.topology)) if in_kernel else None)


def over_xdp(bed: Testbed, nodes: Sequence[str], switches: Sequence[str]) -> Command:
    """The command lines of daemons, where switches sum in the kernel.

    Args:
        bed: where they run.
        nodes: host of each node of the job.
        switches: hosts at which the kernel sums.
    """

    def command(job_file: Path, number: int) -> list[str]:
        ports = bed.interfaces(nodes[number]) if nodes[number] in switches else []
        return daemon(job_file, number, ports)

    return command


def servers_of_tables(topology: Topology) -> list[str]:
    """Where rows live: at all servers, or where there are none, beside every worker."""
    return [node.name for node in topology.nodes if node.kind in {"ps", "aggregator"}] or _workers(topology)


def summing_switches(topology: Topology) -> list[str]:
    """The switches that sum hot rows, the one that sums for all workers first, and each behind the one above it."""
    parents = _parents(topology)
    workers = _workers(topology)

    def height(name: str) -> int:
        above = parents[name]
        return 0 if above is None else 1 + height(above)

    return sorted((name for name in parents if name not in workers), key=height)


def lowest_switches(topology: Topology) -> list[str]:
    """Those of them that hear workers alone."""
    parents = _parents(topology)
    inner = {above for name, above in parents.items() if name not in _workers(topology)}
    return [name for name in summing_switches(topology) if name not in inner]


def _parents(topology: Topology) -> dict[str, str | None]:
    """By worker and by switch that sums the next switch that sums; none where no switch does for all."""
    network = SparseNetwork(topology, servers_of_tables(topology))
    names = network.graph.names
    roots = [node for node in network.roots() if topology.node(names[node]).kind == "switch"]
    return network.parents(roots[0]) if roots else {}


def _workers(topology: Topology) -> list[str]:
    return [worker.name for worker in topology.workers]


def _tree(topology: Topology, switches: Sequence[str]) -> dict[str, list[int]] | None:
    """The tree of several switches, as a job's file has it."""
    if len(switches) <= 1:
        return None
    parents = _parents(topology)
    above = [parents[name] for name in [*switches[1:], *_workers(topology)]]
    numbers = [switches.index(name) for name in above if name is not None]
    return {"parents": numbers[: len(switches) - 1], "leaves": numbers[len(switches) - 1 :]}


def _switches(bed: Testbed) -> list[str]:
    summing = summing_switches(bed.topology)
    if not summing:
        raise TestbedError(
            f"topology {bed.topology.name} has no switch that sums, and the job has hot rows; leave the hot map out"
        )
    return summing
