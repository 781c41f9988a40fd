"""A sparse job on a testbed: its servers of tables at the topology's servers, and hot rows summed by a switch."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from wiresum.deploy.hosts import free_ports
from wiresum.deploy.tables import Command, TableDaemons
from wiresum.document import read_json, read_text
from wiresum.errors import PlanError, TestbedError, TraceError
from wiresum.plan.tables import Table, Tables
from wiresum.sparse.job import sparse_job
from wiresum.testbed.bed import Testbed

FIRST_PORT = 5748
"""Port of the first daemon; 5747 is the aggregators'."""
UDP_OVERHEAD_BYTES = 28
"""Headers of IPv4 and UDP."""


@dataclass(frozen=True)
class SparseJob:
    """What a sparse job has before it has addresses.

    Attributes:
        tables: those of a plan, or as `wiresum.torch.sparse.job_tables` makes them.
        hot: text of the hot map; None if no rows are hot.
    """

    tables: Sequence[Table | Mapping[str, Any]]
    hot: str | None = None

    @classmethod
    def read(cls, tables: Path, hot: Path | None = None) -> SparseJob:
        """Reads tables, and the hot map if there is one.

        Args:
            tables: path of a list as `job_tables` makes it, or of a file as `wiresum sparse tables` prints it.
            hot: path of a hot map.

        Raises:
            PlanError: the tables cannot be read.
            TraceError: the hot map cannot be read.
        """
        content = read_json(tables, "tables", PlanError)
        map_text = read_text(hot, "hot map", TraceError) if hot else None
        return cls(content if isinstance(content, list) else Tables.read(tables).tables, map_text)


def daemons(bed: Testbed, job: SparseJob, mtu_bytes: int, command: Command | None = None) -> TableDaemons:
    """The daemons of a sparse job, to be started on a testbed that is up.

    Servers of tables are at all servers of the topology, or where it has none, beside every worker. A switch that sums
    has the hot rows.

    Args:
        bed: where they run.
        job: what they serve.
        mtu_bytes: of the links.
        command: of another program than the daemon.

    Raises:
        TestbedError: rows are hot, and no switch of the topology sums.
    """
    servers = [node.name for node in bed.topology.nodes if node.kind in {"ps", "aggregator"}] or bed.workers
    switches = _switches(bed) if job.hot else []
    nodes = [*servers, *switches]
    ports = free_ports(len(nodes), socket.SOCK_DGRAM) if bed.why_loopback else count(FIRST_PORT)
    addresses = [f"{bed.address(node)}:{port}" for node, port in zip(nodes, ports, strict=False)]
    text = sparse_job(
        job.tables,
        len(bed.workers),
        addresses[: len(servers)],
        addresses[len(servers) :],
        hot=job.hot,
        packet_bytes=mtu_bytes - UDP_OVERHEAD_BYTES,
    )
    return TableDaemons(bed, text, nodes, command)


def _switches(bed: Testbed) -> list[str]:
    """One switch: with several, every worker would need a way to each of them."""
    summing = [node.name for node in bed.topology.nodes if node.kind == "switch" and node.sums]
    if not summing:
        raise TestbedError(
            f"topology {bed.topology.name} has no switch that sums, and the job has hot rows; leave the hot map out"
        )
    return summing[:1]
