"""A network: nodes and the links between them. `spec/topology.md` documents every field."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, ip_address
from itertools import chain
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from wiresum.document import (
    MAX_BPS,
    BitsPerSecond,
    Bytes,
    Count,
    Document,
    FileDocument,
    PositiveBytes,
    PositiveCount,
    Seconds,
)
from wiresum.errors import TopologyError, WiresumError
from wiresum.topology import circuits
from wiresum.topology.names import Name
from wiresum.topology.optical import Circuit, Oxc

DEFAULT_SUBNET = IPv4Network("10.99.0.0/16")
"""Addresses of nodes that a topology gives none: hosts from below, summing switches from .0.254 down."""
MAX_HOSTS = 200
"""Hosts of a testbed, whose addresses end in 1 to 200; above them are the switches' addresses. In larger networks,
hosts go on at the next 256 addresses, and switches from the subnet's end down."""

MAX_BANDWIDTH_RATIO = 1e8
"""The most within a network: 10 kbit/s beside 800 Gbit/s are 8 × 10⁷, 40 (meant as Gbit/s) beside 10¹⁰ 2.5 × 10⁸."""

MAX_NODES = 1 << 16
"""Most nodes of a topology: as many as a plan can number. The papers' largest networks have some thousand."""

MAX_LINKS = 1 << 18
"""Most links of a topology: sixteen for each host of a network of 16,384."""

MOST_NAMED = 12
"""Nodes that an error names where one is not there."""

Kind = Literal["worker", "ps", "aggregator", "switch", "oxc"]


class Node(Document):
    """A machine in the network.

    Attributes:
        name: unique within the topology.
        kind: `worker` trains; `ps` and `aggregator` are servers that sum; `switch` forwards, and may sum;
            `oxc` is an optical circuit switch, which joins two of its links to one.
        address: IP address on the training network.
        aggregation_rate_bps: bit/s of gradient that the node can add, all children together; 0: it does not sum.
        memory_bytes: memory that it has for slots; unlimited where absent.
        memory_used_bytes: of it, what other work holds; the job's own slots do not count.
        cores: CPU cores for aggregation, with which `aggregation_rate_bps` was measured.
        idle_cores: of them, those without other work; all where absent.
        sums_at: the node that sums what leaves this one; where absent, planners choose (`direct`: the nearest).
        places: how many jobs the node can sum for at once; as many as its memory holds where absent.
        oxc: ports and times of an optical circuit switch.
    """

    name: Name
    kind: Kind
    address: str | None = None
    aggregation_rate_bps: Annotated[float, Field(ge=0, le=MAX_BPS)] = 0.0
    memory_bytes: PositiveBytes | None = None
    memory_used_bytes: Bytes = 0
    cores: PositiveCount = 1
    idle_cores: Count | None = None
    sums_at: Name | None = None
    places: Count | None = None
    oxc: Oxc | None = None

    @field_validator("address")
    @classmethod
    def _is_address(cls, address: str | None) -> str | None:
        if address is not None:
            ip_address(address)
        return address

    @model_validator(mode="after")
    def _servers_sum(self) -> Self:
        if self.kind in ("ps", "aggregator") and not self.sums:
            raise ValueError(f"node {self.name}: a {self.kind} sums, so `aggregation_rate_bps` must be above 0")
        if self.kind == "worker" and self.sums:
            raise ValueError(f"node {self.name}: workers do not sum; remove `aggregation_rate_bps` or change `kind`")
        if (self.kind == "oxc") != (self.oxc is not None) or (self.kind == "oxc" and self.sums):
            problem = "an `oxc` has the field `oxc`, with `dark_s`, and sums nothing; no other kind has that field"
            raise ValueError(f"node {self.name}: {problem}")
        if self.idle_core_count > self.cores:
            raise ValueError(
                f"node {self.name}: `idle_cores` is {self.idle_cores} of {self.cores}; correct one of them"
            )
        return self

    @property
    def idle_core_count(self) -> int:
        """Cores without other work."""
        return self.cores if self.idle_cores is None else self.idle_cores

    @property
    def available_rate_bps(self) -> float:
        """bit/s of gradient that its idle cores can add."""
        return self.aggregation_rate_bps * self.idle_core_count / self.cores

    @property
    def sums(self) -> bool:
        """Whether the node can add gradients."""
        return self.aggregation_rate_bps > 0


class Link(Document):
    """A full-duplex link; several may join the same two nodes.

    Attributes:
        id: unique within the topology.
        source: name of the node at one end.
        target: name of the node at the other end.
        bandwidth_bps: bit/s from source to target, Ethernet headers included; unlimited where absent.
        reverse_bandwidth_bps: bit/s from target to source; as `bandwidth_bps` where absent.
        delay_s: propagation delay from source to target.
        reverse_delay_s: propagation delay from target to source; as `delay_s` where absent.
        loss: fraction of the packets that are lost from source to target, chosen at random.
        reverse_loss: from target to source; as `loss` where absent.
    """

    id: Name
    source: Name
    target: Name
    bandwidth_bps: BitsPerSecond | None = None
    reverse_bandwidth_bps: BitsPerSecond | None = None
    delay_s: Seconds = 0.0
    reverse_delay_s: Seconds | None = None
    loss: Annotated[float, Field(ge=0, lt=1)] = 0.0
    reverse_loss: Annotated[float, Field(ge=0, lt=1)] | None = None

    def bandwidth_from(self, node: str) -> float | None:
        """bit/s in the direction that leaves `node`."""
        backward = node == self.target and self.reverse_bandwidth_bps is not None
        return self.reverse_bandwidth_bps if backward else self.bandwidth_bps

    def delay_from(self, node: str) -> float:
        """Seconds in the direction that leaves `node`."""
        backward = node == self.target and self.reverse_delay_s is not None
        return self.reverse_delay_s or 0.0 if backward else self.delay_s

    def loss_from(self, node: str) -> float:
        """Fraction of the packets that are lost in the direction that leaves `node`."""
        backward = node == self.target and self.reverse_loss is not None
        return self.reverse_loss or 0.0 if backward else self.loss

    def other_end(self, node: str) -> str:
        """The node at the end that is not `node`."""
        return self.target if node == self.source else self.source


class Topology(FileDocument):
    """Nodes and links. Workers rank in the order in which they are listed."""

    error: ClassVar[type[WiresumError]] = TopologyError
    what: ClassVar[str] = "topology"

    format: Literal["wiresum-topology/1"] = "wiresum-topology/1"
    name: Name
    nodes: Annotated[list[Node], Field(min_length=1, max_length=MAX_NODES)]
    links: Annotated[list[Link], Field(default_factory=list, max_length=MAX_LINKS)]

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        _require_unique("nodes", "name", [node.name for node in self.nodes])
        _require_unique("links", "id", [link.id for link in self.links])
        addresses = [node.address for node in self.nodes if node.address]
        _require_unique("nodes", "address", addresses)
        names = {node.name for node in self.nodes}
        for index, link in enumerate(self.links):
            for end in (link.source, link.target):
                _require(end in names, f"links[{index}]", f"node {end} is not in `nodes`; add it or correct the name")
            _require(link.source != link.target, f"links[{index}]", "joins a node to itself; name two nodes")
        self._check_units()
        for index, node in enumerate(self.nodes):
            self._check_sums_at(node, f"nodes[{index}].sums_at")
        circuits.check(self)
        return self

    def _check_units(self) -> None:
        """Bandwidths that differ beyond reason are in different units."""
        rates = [
            (rate, index)
            for index, link in enumerate(self.links)
            for rate in (link.bandwidth_bps, link.reverse_bandwidth_bps)
            if rate is not None
        ]
        if rates:
            (slowest, where), (fastest, other) = min(rates), max(rates)
            _require(
                fastest / slowest <= MAX_BANDWIDTH_RATIO,
                f"links[{where}].bandwidth_bps",
                f"{slowest:g} beside {fastest:g} at links[{other}]: give all in bit/s (10 Gbit/s are 1e10)",
            )

    def _check_sums_at(self, node: Node, field: str) -> None:
        if node.sums_at is None:
            return
        target = next((other for other in self.nodes if other.name == node.sums_at), None)
        _require(
            target is not None and target.sums, field, f"{node.sums_at} is not a node that sums; name one that does"
        )
        _require(node.sums_at != node.name, field, "a node cannot be its own parent; name another")

    def node(self, name: str) -> Node:
        """The node of that name.

        Raises:
            TopologyError: there is none.
        """
        found = next((node for node in self.nodes if node.name == name), None)
        if found is None:
            known, more = [node.name for node in self.nodes[:MOST_NAMED]], len(self.nodes) - MOST_NAMED
            rest = f" and {more} more" if more > 0 else ""
            raise TopologyError(f"topology {self.name} has no node {name}; it has {', '.join(known)}{rest}")
        return found

    @property
    def workers(self) -> list[Node]:
        """Workers in rank order."""
        return [node for node in self.nodes if node.kind == "worker"]

    @property
    def summing_nodes(self) -> list[Node]:
        """Nodes that can add gradients."""
        return [node for node in self.nodes if node.sums]

    def links_of(self, name: str) -> list[Link]:
        """Links with an end at that node."""
        return [link for link in self.links if name in (link.source, link.target)]

    def by_distance(self, start: str) -> Iterator[Node]:
        """Nodes that can be reached from `start`, fewest links first, `start` itself included.

        Workers and servers do not forward, so a path ends at them.
        """
        seen, queue = {start}, deque([self.node(start)])
        while queue:
            node = queue.popleft()
            yield node
            if node.name != start and node.kind != "switch":
                continue
            for neighbour in (link.other_end(node.name) for link in self.links_of(node.name)):
                if neighbour not in seen:
                    seen.add(neighbour)
                    queue.append(self.node(neighbour))

    def with_circuits(self, lit: Iterable[Circuit]) -> "Topology":
        """The packet network while these circuits are lit: logical links instead of optical switches and fibres.

        Raises:
            TopologyError: one of them cannot be, or a port is in two.
        """
        return circuits.with_circuits(self, lit)

    def require_packets(self) -> Self:
        """The topology itself, if every link carries packets by itself.

        Raises:
            TopologyError: there is an optical switch, whose circuits decide who is joined to whom.
        """
        switch = next(iter(circuits.optical_switches(self)), None)
        if switch is not None:
            raise TopologyError(
                f"topology {self.name}: {switch.name} is an optical switch, and which units it joins is not said; "
                "light some circuits (`wiresum topology lit`), or give jobs and a scheduler"
            )
        return self

    def with_loss(self, fraction: float) -> "Topology":
        """The topology with this loss in both directions of every link."""
        update = {"loss": fraction, "reverse_loss": None}
        return self.model_copy(update={"links": [link.model_copy(update=update) for link in self.links]})

    def with_addresses(self, *, unlit: bool = False) -> "Topology":
        """The topology with an address at every worker and every summing node that had none.

        Args:
            unlit: the topology may have optical switches whose circuits are not said.

        Raises:
            TopologyError: no address is left, or circuits are not said: nobody talks over a network that is not there.
        """
        if not unlit:
            self.require_packets()
        taken = {node.address for node in self.nodes}
        middle, end = DEFAULT_SUBNET.num_addresses // 2, DEFAULT_SUBNET.num_addresses - 2
        below = (DEFAULT_SUBNET[n] for n in chain(range(1, MAX_HOSTS + 1), range(256, middle)))
        above = (DEFAULT_SUBNET[n] for n in chain(range(254, MAX_HOSTS, -1), range(end, middle, -1)))
        free_host = (str(address) for address in below if str(address) not in taken)
        free_switch = (str(address) for address in above if str(address) not in taken)

        def addressed(node: Node) -> Node:
            if node.address or (node.kind in {"switch", "oxc"} and not node.sums):
                return node
            address = next(free_switch if node.kind == "switch" else free_host, None)
            if address is None:
                raise TopologyError(
                    f"topology {self.name}: no address left for {node.name}; give the nodes an `address`"
                )
            return node.model_copy(update={"address": address})

        return self.model_copy(update={"nodes": [addressed(node) for node in self.nodes]})


def _require(condition: bool, field: str, problem: str) -> None:
    if not condition:
        raise ValueError(f"{field}: {problem}")


def _require_unique(where: str, field: str, values: list[str]) -> None:
    repeated = next((value for value, count in Counter(values).items() if count > 1), None)
    _require(repeated is None, where, f"two have the {field} {repeated}; each needs its own")
