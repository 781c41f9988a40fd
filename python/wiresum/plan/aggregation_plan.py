"""The answer of every planner and the input of every runner. `spec/plan.md` documents every field.

The rules are those of `crates/plan/src/validate.rs`; a test holds the two together.
"""

import re
from collections import Counter
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from wiresum.document import Document, FileDocument
from wiresum.errors import PlanError, WiresumError
from wiresum.plan.fabric import MAX_SWITCHED_VALUES, MAX_WORKERS, PlanFabric
from wiresum.plan.members import (
    MAX_U16,
    MAX_U32,
    U16,
    U32,
    Child,
    NodeChild,
    WorkerChild,
    parse_socket_address,
    require,
)
from wiresum.wire import BLOCK_LEN, MAX_CONTRIBUTORS, MAX_VALUES, MIN_VALUES

__all__ = [
    "FORMAT", "LANE_BYTES", "MAX_BPS", "MAX_SLOTS", "MAX_U16", "MAX_U32", "SLOT_VERSIONS", "U16", "U32", "XDP_ENGINES",
    "AggregationPlan", "Bandwidth", "Child", "Engine", "Exponents", "Lanes", "NodeChild", "PlanFabric", "PlanJob",
    "PlanNode", "PlanWorker", "Policy", "Role", "Solution", "SolutionStatus", "SubModel", "TreeNode", "TreeWay",
    "WorkerChild", "parse_socket_address",
]  # fmt: skip

FORMAT = "wiresum-plan/1"
"""Value of `AggregationPlan.format`."""
LANE_BYTES = 4
"""Bytes of an int32 lane."""
MAX_SLOTS = 1 << 22
"""2²² fragments of 2944 bytes are 12 GB of gradient."""
SLOT_VERSIONS = 2
"""Entries of a slot."""
SHARE_TOLERANCE = 1e-6
FACTORS = (1e-30, 1e30)
"""Bounds of the factor of `fixed`."""
MIN_VALUE_BITS = 8
"""Bits of a lane that must be left to a value when as many carries as workers are set aside."""
MAX_BPS = 1 << 53
"""bit/s; the largest whole number that every reader of JSON keeps exactly."""
MAX_MISSED = 1024
"""Rounds in a row without the same worker."""
Bandwidth = Annotated[int, Field(ge=1, le=MAX_BPS)]
Lanes = Literal["int32-le", "int32-be", "int16-le", "int16-be"]
Engine = Literal["xdp", "af_xdp", "udp", "tcp"]
XDP_ENGINES: Final[frozenset[Engine]] = frozenset({"xdp", "af_xdp"})
"""Those that run a program on each interface, and send past its queueing discipline."""
Role = Literal["exponents", "values"]
Policy = Literal["pool", "cache"]
Exponents = Literal["agreed", "expected"]
SolutionStatus = Literal["optimal", "feasible", "time_limit", "heuristic"]


class RoundCount(Document):
    """How many children's contributions a node's rounds take at least.

    Attributes:
        node: the node.
        k: children, 1 to all of them; K of the switch in GOAT, Eq. (20).
    """

    node: U16
    k: Annotated[int, Field(ge=1, le=MAX_CONTRIBUTORS)]


class Rounds(Document):
    """Rounds that go on without late workers (GOAT §V).

    Attributes:
        counts: how many each node's rounds take, by node of the exponents' tree; a node that is not listed takes all.
        most_missed: most rounds in a row that go on without the same worker.
    """

    counts: list[RoundCount]
    most_missed: Annotated[int, Field(ge=1, le=MAX_MISSED)]


class PlanJob(Document):
    """What all participants of a job agree on.

    Attributes:
        id: number of the job on its aggregators.
        secret: 16 hexadecimal digits; a child without it is refused.
        values_per_packet: payload of a full packet in int32 lanes (twice as many values with 16-bit lanes).
        lanes: width and byte order of the lanes.
        codec: how floats become integers, `block` or `fixed:<factor>`.
        exponents: with `block`, whether values wait until all ranks have agreed on theirs, or flow with those expected.
        rounds: that go on without late workers; absent where every round takes every worker.
    """

    id: U16
    secret: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{16}$")]
    values_per_packet: U16
    lanes: Lanes = "int32-le"
    codec: str = "block"
    exponents: Exponents = "agreed"
    rounds: Rounds | None = None

    @field_validator("values_per_packet")
    @classmethod
    def _fills_blocks(cls, values: int) -> int:
        lanes_per_block = BLOCK_LEN // LANE_BYTES
        if not MIN_VALUES <= values <= MAX_VALUES or values % lanes_per_block:
            raise ValueError(f"must be {MIN_VALUES}..={MAX_VALUES} and a multiple of {lanes_per_block}")
        return values

    @field_validator("codec")
    @classmethod
    def _is_codec(cls, codec: str) -> str:
        factor = re.fullmatch(r"fixed:(.*)", codec)
        if codec != "block" and not (factor and _is_factor(factor[1])):
            low, high = FACTORS
            raise ValueError(f"must be `block`, or `fixed:` and a factor from {low:g} to {high:g}, not `{codec}`")
        return codec

    @property
    def payload_bytes(self) -> int:
        """Bytes of payload in a full packet."""
        return self.values_per_packet * LANE_BYTES


class PlanNode(Document):
    """An aggregator.

    Attributes:
        id: its number in packets.
        name: its name, for people.
        address: where its children send to, `ip:port`.
        engine: what runs it: the kernel (`xdp`), or user space with AF_XDP sockets (`af_xdp`), a UDP socket (`udp`)
            or TCP connections (`tcp`).
        ingress_bps: what its links bring to it, in bit/s on the wire; absent where nothing bounds all children at once.
        egress_bps: what its links take from it, in bit/s on the wire.
    """

    id: U16
    name: str
    address: str
    engine: Engine = "udp"
    ingress_bps: Bandwidth | None = None
    egress_bps: Bandwidth | None = None

    @field_validator("address")
    @classmethod
    def _is_socket_address(cls, address: str) -> str:
        parse_socket_address(address)
        return address

    @property
    def ip(self) -> IPv4Address | IPv6Address:
        """The address without the port."""
        return parse_socket_address(self.address)[0]

    @property
    def port(self) -> int:
        """The port."""
        return parse_socket_address(self.address)[1]


class PlanWorker(Document):
    """A worker.

    Attributes:
        rank: its rank in the process group.
        name: its name, for people.
        address: where it sends from; any address where absent.
        egress_bps: most that it can send, in bit/s on the wire; unlimited where absent.
    """

    rank: U32
    name: str
    address: str | None = None
    egress_bps: Bandwidth | None = None

    @field_validator("address")
    @classmethod
    def _is_address(cls, address: str | None) -> str | None:
        if address is not None and (ip_address(address) and "%" in address):
            raise ValueError("must not have a zone")
        return address


class TreeNode(Document):
    """A node's place in a tree.

    Attributes:
        node: the aggregator's id.
        parent: its parent's id; absent at the root.
        children: its children; the index in this list is the contributor.
    """

    node: U16
    parent: U16 | None = None
    children: list[Child]


class TreeWay(Document):
    """Which links lead from a child to its parent, and results back.

    Attributes:
        child: whose.
        links: ids of the topology's links, from the child on.
    """

    child: Child
    links: Annotated[list[str], Field(min_length=1)]


class SubModel(Document):
    """A stream of fragments with a tree and slots of its own.

    Attributes:
        id: its number in packets.
        name: its name, for people.
        role: what it carries.
        share: fraction of each collective's values that it carries; 0 for exponents.
        policy: how fragments find their slots, and what acknowledges them.
        slots: slots at every node of the tree, each with two versions; a power of two.
        window: most fragments that a worker has sent without an acknowledgement; at most `slots`.
        tree: the reduce tree, root first.
        ways: of the tree's edges, where the planner chose them; who is not listed takes the network's own way.
    """

    id: U16
    name: str
    role: Role
    share: Annotated[float, Field(ge=0, le=1)]
    policy: Policy
    slots: U32
    window: U32
    tree: list[TreeNode]
    ways: list[TreeWay] | None = None

    @model_validator(mode="after")
    def _slots_hold_the_window(self) -> Self:
        power_of_two = self.slots > 0 and self.slots & (self.slots - 1) == 0
        require(power_of_two and self.slots <= MAX_SLOTS, "slots", f"must be a power of two, at most {MAX_SLOTS}")
        require(1 <= self.window <= self.slots, "window", "must be between 1 and `slots`")
        return self

    def place(self, node: int) -> TreeNode | None:
        """A node's place in the tree."""
        return next((place for place in self.tree if place.node == node), None)

    def slot_bytes(self, payload_bytes: int) -> int:
        """Memory for values at each node of the tree."""
        return self.slots * SLOT_VERSIONS * payload_bytes


class Solution(Document):
    """How good a planner's answer is, and how it was found.

    Attributes:
        solver: what found it; `none` where a planner follows a rule and searches nothing.
        status: `optimal`: no answer is better; `feasible`: a better one may exist, by `gap` at most if there is a
            bound; `time_limit`: likewise, and more time may find it; `heuristic`: nothing is proven.
        objective: what was minimised, with its unit.
        value: of this answer.
        bound: no answer is below.
        gap: (value − bound) / value.
        seed: of random choices.
        seconds: that the planner took.
    """

    solver: str
    status: SolutionStatus
    objective: str
    value: float
    bound: float | None = None
    gap: float | None = None
    seed: U32 | None = None
    seconds: float | None = None

    @property
    def is_searched(self) -> bool:
        """Whether other answers were compared."""
        return self.solver != "none"

    def __str__(self) -> str:
        """For people."""
        if not self.is_searched:
            return f"by its rule, {self.objective} {self.value:.6g}"
        proof = "" if self.gap is None else f", gap {self.gap:.2%}"
        return f"{self.solver}: {self.status}, {self.objective} {self.value:.6g}{proof}"


class AggregationPlan(FileDocument):
    """Where each fragment of one job is summed."""

    error: ClassVar[type[WiresumError]] = PlanError
    what: ClassVar[str] = "plan"

    format: Literal["wiresum-plan/1"]
    planner: str = ""
    solution: Solution | None = None
    job: PlanJob
    nodes: list[PlanNode]
    workers: Annotated[list[PlanWorker], Field(min_length=1)]
    sub_models: list[SubModel]
    fabric: PlanFabric | None = None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        for index, worker in enumerate(self.workers):
            require(worker.rank == index, f"workers[{index}].rank", "must equal its index: list workers in rank order")
        _require_distinct([node.id for node in self.nodes], "nodes", "two have the same id: give each its own")
        over_tcp = sum(node.engine == "tcp" for node in self.nodes)
        problem = "the engine `tcp` is for all nodes or none, as children speak to every node alike"
        require(over_tcp in {0, len(self.nodes)}, "nodes", problem)
        ids = [sub_model.id for sub_model in self.sub_models]
        _require_distinct(ids, "sub_models", "two have the same id: give each its own")
        exponents = [sub_model for sub_model in self.sub_models if sub_model.role == "exponents"]
        require(len(exponents) == 1, "sub_models", "exactly one must have the role `exponents`")
        self._check_lanes()
        share = sum(sub_model.share for sub_model in self.sub_models if sub_model.role == "values")
        whole = abs(share - 1) < SHARE_TOLERANCE
        require(whole, "sub_models", "the shares of the `values` streams must add up to 1")
        for index, sub_model in enumerate(self.sub_models):
            self._check_tree(sub_model, f"sub_models[{index}].tree")
            self._check_ways(sub_model, f"sub_models[{index}].ways")
        if self.job.rounds is not None:
            self._check_rounds(self.job.rounds, exponents[0])
        if self.fabric is not None:
            self._check_fabric(self.fabric)
        return self

    def _check_rounds(self, rounds: Rounds, tree: SubModel) -> None:
        agreed = self.job.codec == "block" and self.job.exponents == "agreed"
        problem = "who takes part is agreed on with the exponents: use the codec `block` and exponents `agreed`"
        require(agreed, "job.rounds", problem)
        field = "job.rounds.counts"
        _require_distinct([count.node for count in rounds.counts], field, "a node has two counts: give it one")
        for count in rounds.counts:
            place = tree.place(count.node)
            fan_in = len(place.children) if place else 0
            require(count.k <= fan_in, field, f"node {count.node} has {fan_in} children, not {count.k} or more")

    def _check_fabric(self, fabric: PlanFabric) -> None:
        job, workers = self.job, len(self.workers)
        fixed = job.codec.startswith("fixed:")
        require(fixed, "job.codec", "switches agree on no exponents: use `fixed:<factor>`")
        wide = job.lanes.startswith("int32")
        require(wide, "job.lanes", "switches add 32-bit lanes: use `int32-le` or `int32-be`")
        problem = f"a packet at switches has two headers, and at most {MAX_SWITCHED_VALUES} values"
        require(job.values_per_packet <= MAX_SWITCHED_VALUES, "job.values_per_packet", problem)
        problem = "must be more than twice the number of workers"
        require(job.values_per_packet > 2 * workers, "job.values_per_packet", problem)
        problem = f"a packet names {MAX_WORKERS} workers at switches: sum some on a server first"
        require(workers <= MAX_WORKERS, "workers", problem)
        known = all(node.engine in {"udp", "xdp"} for node in self.nodes)
        require(known, "nodes", "switches have the engine `udp` or `xdp`")
        fabric.check(workers, [node.id for node in self.nodes], [sub_model.id for sub_model in self.sub_models])

    def _check_lanes(self) -> None:
        is_narrow = self.job.lanes.startswith("int16")
        bits = 16 if is_narrow else 32
        require(
            not is_narrow or self.job.exponents == "agreed",
            "job.exponents",
            "16-bit lanes have no bits to spare for what may be expected: use 32-bit lanes, or `agreed`",
        )
        most = 1 << (bits - 1 - MIN_VALUE_BITS)
        require(len(self.workers) <= most, "job.lanes", f"{bits} bits hold the sums of at most {most} workers")

    def _check_tree(self, sub_model: SubModel, field: str) -> None:
        places = [place.node for place in sub_model.tree]
        _require_distinct(places, field, "a node has two places: give it one")
        roots = [place for place in sub_model.tree if place.parent is None]
        require(len(roots) == 1, field, "must have exactly one root")
        seen: Counter[int] = Counter()
        for index, place in enumerate(sub_model.tree):
            # Which also rules out cycles.
            after_parent = place.parent is None or place.parent in places[:index]
            require(after_parent, field, f"node {place.node} comes before its parent: list the root first")
            self._check_place(sub_model, place, field)
            seen.update(child.worker for child in place.children if isinstance(child, WorkerChild))
        for worker in seen:
            known_once = worker < len(self.workers) and seen[worker] == 1
            require(known_once, field, f"worker {worker} is unknown or has two parents")
        require(len(seen) == len(self.workers), field, "every worker must be a child of exactly one node")

    def _check_ways(self, sub_model: SubModel, field: str) -> None:
        ways = sub_model.ways or []
        require(not ways or self.fabric is None, field, "the fabric has the ways: leave these out")
        owners = [way.child.model_dump_json() for way in ways]
        _require_distinct(owners, field, "a child has two ways: give it one")
        children = {child.model_dump_json() for place in sub_model.tree for child in place.children}
        stranger = "one is of nobody that has a parent in the tree: remove it"
        require(set(owners) <= children, field, stranger)
        for way in ways:
            _require_distinct(way.links, field, "must have one link or more, none twice")

    def _check_place(self, sub_model: SubModel, place: TreeNode, field: str) -> None:
        known = any(node.id == place.node for node in self.nodes)
        require(known, field, f"node {place.node} is not in `nodes`")
        fan_in = 1 <= len(place.children) <= MAX_CONTRIBUTORS
        require(fan_in, field, f"node {place.node} must have 1..={MAX_CONTRIBUTORS} children")
        children = [child.model_dump_json() for child in place.children]
        _require_distinct(children, field, f"node {place.node} has the same child twice")
        if place.parent is not None:
            parent = sub_model.place(place.parent)
            listed = parent is not None and NodeChild(node=place.node) in parent.children
            problem = f"node {place.node} names {place.parent} as its parent, which does not list it as a child"
            require(listed, field, problem)
        for child in place.children:
            if isinstance(child, NodeChild):
                child_place = sub_model.place(child.node)
                agrees = child_place is not None and child_place.parent == place.node
                require(agrees, field, f"node {child.node} does not name {place.node} as its parent")

    def node(self, node_id: int) -> PlanNode:
        """The aggregator of that id.

        Raises:
            PlanError: there is none.
        """
        found = next((node for node in self.nodes if node.id == node_id), None)
        if found is None:
            raise PlanError(f"the plan has no node {node_id}")
        return found


def _is_factor(text: str) -> bool:
    """A number as the data plane reads it, within its bounds."""
    plain = re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text)
    return plain is not None and FACTORS[0] <= float(text) <= FACTORS[1]


def _require_distinct(items: Sequence[int | str], field: str, problem: str) -> None:
    require(len(set(items)) == len(items), field, problem)
