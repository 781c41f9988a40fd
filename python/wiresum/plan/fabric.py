"""The part of a plan that is about a network of switches. `spec/plan.md` documents every field.

The rules are those of `crates/plan/src/fabric/validate.rs`; a test holds the two together. What can be derived
is not in the document: who is summed at a switch, and where its sum goes, follow from the ways.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator

from wiresum.document import Document
from wiresum.plan.members import U8, U16, U32, Child, WorkerChild, parse_socket_address, require
from wiresum.wire import BLOCK_LEN, HEADER_LEN, MAX_PACKET, SWITCH_HEADER_LEN

MAX_WORKERS = 64
"""Of a job at switches: the bits of a contributor set."""
MAX_SWITCHED_VALUES = (MAX_PACKET - HEADER_LEN - SWITCH_HEADER_LEN) // BLOCK_LEN * (BLOCK_LEN // 4)
"""Of a packet with two headers, which is no longer than the longest with one."""
DEFAULT_TIMEOUT_S = 0.2
"""Well above what full queues add to a round trip, as what is sent again needlessly costs a link what it carries."""

SwitchPolicy = Literal["pool", "hash", "preempt", "exclusive", "register", "segment", "cache"]
ADDRESSED: Final[frozenset[SwitchPolicy]] = frozenset({"exclusive", "register"})
"""Packets name the switch that is to sum them."""
SHARING: Final[frozenset[SwitchPolicy]] = frozenset({"hash", "preempt"})
"""Streams may be given the same slots."""
NEEDS_SERVER: Final[dict[SwitchPolicy, bool]] = {
    "pool": False, "cache": False, "hash": True, "preempt": True, "exclusive": True, "register": True,
}  # fmt: skip
"""Whether a server completes the sums; `segment` works with one and without."""

POLICIES: Final[dict[str, SwitchPolicy]] = {
    "goat": "exclusive", "krgs": "exclusive", "krgs_paper": "exclusive", "atp_static": "exclusive", "ps": "exclusive",
    "geryon": "exclusive", "ingo": "register", "r-ingo": "register", "grid": "register", "atp": "hash",
    "esa": "preempt", "switchml": "pool", "p4inc-aoi": "segment",
}  # fmt: skip
"""What the switches of each planner's paper do; `ps` and `geryon` have none that sum."""

DOUBLED: Final[frozenset[SwitchPolicy]] = frozenset({"pool", "cache", "segment"})
"""A slot holds values twice: two versions, or the sum and the last result."""
SwitchEngine = Literal["xdp", "udp"]
"""What runs a switch: the kernel or user space."""

Site = tuple[Literal["worker", "node"], int]
"""A worker by rank, or a node by id."""
Hop = tuple[Site, Site]
Legs = list[list[Hop]]


class FabricEnd(Document):
    """An end of a link.

    Attributes:
        at: who is there.
        address: where its neighbour sends to, `ip:port`.
    """

    at: Child
    address: str

    @field_validator("address")
    @classmethod
    def _is_socket_address(cls, address: str) -> str:
        parse_socket_address(address)
        return address

    @property
    def site(self) -> Site:
        """Who is there, as a key."""
        return ("worker", self.at.worker) if isinstance(self.at, WorkerChild) else ("node", self.at.node)


class FabricLink(Document):
    """A link between two neighbours, in both directions.

    Attributes:
        id: as in the topology.
        ends: its two ends.
    """

    id: str
    ends: Annotated[list[FabricEnd], Field(min_length=2, max_length=2)]


class FabricMemory(Document):
    """What a switch keeps: so many fragments."""

    node: U16
    slots: U32


class FabricPlace(Document):
    """A stream's part of a switch's memory: `slots` fragments from `base` on."""

    node: U16
    base: U32
    slots: U32


class FabricLeg(Document):
    """A part of a way, on which packets have one address.

    Attributes:
        node: what they are addressed to; absent: every switch on the way.
        links: indices into the fabric's links.
    """

    node: U16 | None = None
    links: list[U16]


class FabricWay(Document):
    """The links that a worker's values take, alone and in sums, to each node that sums them, in order."""

    worker: U32
    legs: list[FabricLeg]


class FabricStream(Document):
    """How one stream is carried and summed.

    Attributes:
        sub_model: which.
        priority: urgency, where the policy preempts.
        places: where it is summed below its root, and at the root if that is a switch.
        ways: in rank order.
    """

    sub_model: U16
    priority: U8 = 0
    places: list[FabricPlace]
    ways: list[FabricWay]


class PlanFabric(Document):
    """How switches carry and sum a plan's streams, instead of the nodes of their trees.

    Attributes:
        policy: what the switches do with fragments.
        timeout_s: how long a worker hears nothing before it sends its oldest fragment again.
        links: between neighbours.
        memory: of the switches that sum.
        streams: one for each sub-model, in their order; what the exponents' stream carries is one check of each
            collective.
    """

    policy: SwitchPolicy
    timeout_s: Annotated[float, Field(ge=1e-4, le=10)] = DEFAULT_TIMEOUT_S
    links: Annotated[list[FabricLink], Field(max_length=(1 << 16) - 1)]
    memory: list[FabricMemory]
    streams: list[FabricStream]

    def check(self, workers: int, nodes: Sequence[int], sub_models: Sequence[int]) -> None:
        """Asserts that it belongs to a plan and can be run.

        Args:
            workers: in the plan.
            nodes: ids.
            sub_models: ids.

        Raises:
            ValueError: it does not; the message names the field and the remedy.
        """
        for index, link in enumerate(self.links):
            _check_link(link, workers, nodes, f"fabric.links[{index}].ends")
        for index, memory in enumerate(self.memory):
            field = f"fabric.memory[{index}].node"
            require(memory.node in nodes, field, "is not in `nodes`")
            before = [other.node for other in self.memory[:index]]
            require(memory.node not in before, field, "is there twice: give it one memory")
        is_all = [stream.sub_model for stream in self.streams] == list(sub_models)
        require(is_all, "fabric.streams", "must be one for each sub-model, in their order")
        for index, stream in enumerate(self.streams):
            self._check_stream(stream, workers, f"fabric.streams[{index}]")
        if self.policy not in SHARING:
            self._check_regions()

    def switches(self) -> set[int]:
        """Nodes that ways lead over, but for those where the sums of some stream end without being made by a switch."""
        passed: set[int] = set()
        servers: set[int] = set()
        for stream in self.streams:
            walked = [_walk(self.links, ("worker", way.worker), way) or [] for way in stream.ways]
            passed |= {node for legs in walked for _, (_, node) in _flat(legs)}
            servers |= {legs[-1][-1][1][1] for legs in walked} - {place.node for place in stream.places}
        return passed - servers

    def _check_stream(self, stream: FabricStream, workers: int, field: str) -> None:
        in_order = [way.worker for way in stream.ways] == list(range(workers))
        require(in_order, f"{field}.ways", "must be one for each worker, in rank order")
        walked = [_checked_walk(self.links, way, f"{field}.ways") for way in stream.ways]
        roots = {legs[-1][-1][1] for legs in walked}
        require(len(roots) == 1, f"{field}.ways", "end at several roots: sums must meet")
        for place in stream.places:
            self._check_place(place, f"{field}.places")
        self._check_sums(stream, walked, roots.pop(), field)

    def _check_place(self, place: FabricPlace, field: str) -> None:
        slots = next((memory.slots for memory in self.memory if memory.node == place.node), None)
        require(slots is not None, field, f"node {place.node} is not in `fabric.memory`")
        end = place.base + place.slots
        problem = f"node {place.node} has {slots} slots, of which this needs 1 to {end}"
        require(place.slots > 0 and end <= (slots or 0), field, problem)

    def _check_sums(self, stream: FabricStream, walked: list[Legs], root: Site, field: str) -> None:
        placed: list[Site] = [("node", place.node) for place in stream.places]
        require(len(set(placed)) == len(placed), f"{field}.places", "a node has two places: give it one")
        has_server = root not in placed
        fits = NEEDS_SERVER.get(self.policy, has_server) == has_server
        problem = (
            "the root has none, and this policy has the sum at a switch: give it one"
            if has_server
            else "the root has one, and this policy has the sum at a server: remove it"
        )
        require(fits, f"{field}.places", problem)
        for way, legs in zip(stream.ways, walked, strict=True):
            self._check_way(way, legs, placed, root, field)
        passed = {target for legs in walked for _, target in _flat(legs)}
        lonely = "nobody's way leads over one of them: remove it"
        require(set(placed) <= passed, f"{field}.places", lonely)

    def _check_way(self, way: FabricWay, legs: Legs, placed: Sequence[Site], root: Site, field: str) -> None:
        addressed = self.policy in ADDRESSED
        fits = all((leg.node is not None) == addressed for leg in way.legs)
        problem = (
            "have a leg without `node`: this policy's packets name the switch that sums them"
            if addressed
            else "have a leg with `node`: this policy's packets are summed by every switch on the way"
        )
        require(fits, f"{field}.ways", problem)
        ends = [hops[-1][1] for hops in legs]
        missing = "a leg ends where the stream has none: give it one"
        require(all(end == root or end in placed for end in ends), f"{field}.places", missing)

    def _check_regions(self) -> None:
        taken: list[tuple[int, int, int]] = []
        for index, stream in enumerate(self.streams):
            for place in stream.places:
                begin, end = place.base, place.base + place.slots
                meets = any(node == place.node and begin < e and b < end for node, b, e in taken)
                problem = f"slots of node {place.node} are another stream's: give it its own"
                require(not meets, f"fabric.streams[{index}].places", problem)
                taken.append((place.node, begin, end))


def _check_link(link: FabricLink, workers: int, nodes: Sequence[int], field: str) -> None:
    for end in link.ends:
        kind, number = end.site
        known = number < workers if kind == "worker" else number in nodes
        require(known, field, "one is not in `workers` or `nodes`")
    one, other = link.ends
    require(one.site != other.site, field, "must be two different ones")
    require(_version(one.address) == _version(other.address), field, "must both have IPv4 addresses, or both IPv6")


def _version(address: str) -> int:
    return parse_socket_address(address)[0].version


def _walk(links: Sequence[FabricLink], begin: Site, way: FabricWay) -> Legs | None:
    at, legs = begin, []
    for leg in way.legs:
        hops = []
        for link in leg.links:
            ends = [end.site for end in links[link].ends] if link < len(links) else []
            if at not in ends:
                return None
            after = ends[1 - ends.index(at)]
            hops.append((at, after))
            at = after
        legs.append(hops)
    return legs


def _checked_walk(links: Sequence[FabricLink], way: FabricWay, field: str) -> Legs:
    legs = _walk(links, ("worker", way.worker), way)
    require(legs is not None, field, "one names a link that does not begin where it has come")
    assert legs is not None, "required just now"
    who = f"the way of worker {way.worker}"
    require(bool(legs), field, f"{who} has no legs: give it one to the root")
    for leg, hops in zip(way.legs, legs, strict=True):
        require(bool(hops), field, f"{who} has a leg without hops: leave it out")
        visited = [hops[0][0], *(target for _, target in hops)]
        over = "leads over a worker, and workers do not forward: choose a path over switches"
        require(all(kind == "node" for kind, _ in visited[1:]), field, f"{who} {over}")
        circle = "passes a node twice with one address: choose a path without circles"
        require(len(set(visited)) == len(visited), field, f"{who} {circle}")
        there = leg.node is None or visited[-1] == ("node", leg.node)
        require(there, field, f"{who} has a leg that ends at another node than its address")
    alone = len(way.legs) == 1 or all(leg.node is not None for leg in way.legs)
    require(alone, field, f"{who} has several legs, one without an address: address each to its end")
    return legs


def _flat(legs: Legs) -> Iterator[Hop]:
    return (hop for hops in legs for hop in hops)
