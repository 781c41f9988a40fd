"""The answer of every planner and the input of every runner. `spec/plan.md` documents every field.

The types here are a plan's shape; the rules across its fields are in `crates/plan`, which every plan is put to.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from types import ModuleType
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from wiresum.document import Amount, Document, FileDocument, Number, read_text, write_text
from wiresum.errors import PlanError, WiresumError
from wiresum.native import why_missing
from wiresum.plan.choices import FLOAT32_BYTES, MAX_MISSED, Engine, Exponents, Lanes, lane_bytes
from wiresum.plan.fabric import Derived, PlanFabric
from wiresum.plan.members import (
    MAX_U16,
    MAX_U32,
    U16,
    U32,
    Child,
    NodeChild,
    SocketAddress,
    WorkerChild,
    parse_socket_address,
)
from wiresum.plan.rows import PlanSparse
from wiresum.plan.stream import SLOT_VERSIONS, PlanLeg, PlanPlace, PlanStream, Role, Tree
from wiresum.wire import MAX_SWITCHED_WORKERS, PROOF_LEN, SEAL_LEN

__all__ = [
    "FORMAT", "LANE_BYTES", "MAX_BPS", "MAX_SLOTS", "MAX_U16", "MAX_U32", "SLOT_VERSIONS", "U16", "U32",
    "AggregationPlan", "Bandwidth", "Child", "NodeChild", "PlanFabric", "PlanJob",
    "PlanLeg", "PlanNode", "PlanPlace", "PlanSparse", "PlanStream", "PlanWorker", "Role", "Solution", "SolutionStatus",
    "Tree", "WorkerChild", "agrees", "parse_socket_address",
]  # fmt: skip

FORMAT = "wiresum-plan/2"
"""Value of `AggregationPlan.format`."""
VERSION_1 = "wiresum-plan/1"
"""The format before this one, which is still read."""
LANE_BYTES = 4
"""Bytes of an int32 lane."""
MAX_SLOTS = 1 << 22
"""2²² fragments of 2944 bytes are 12 GB of gradient."""
MAX_BPS = 1 << 53
"""bit/s; the largest whole number that every reader of JSON keeps exactly."""
Secret = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$")]
"""64 hexadecimal digits."""
BAD_SECRET = "plan: job.secret: "
"""Beginning of what is said of a secret that is none."""
Bandwidth = Annotated[int, Field(ge=1, le=MAX_BPS)]
SolutionStatus = Literal["optimal", "feasible", "time_limit", "heuristic"]


class RoundCount(Document):
    """How many children's contributions a node's rounds take at least.

    Attributes:
        node: the node.
        k: children, 1 to all of them; K of the switch in GOAT, Eq. (20).
    """

    node: U16
    k: Annotated[int, Field(ge=1, le=MAX_SWITCHED_WORKERS)]


class Rounds(Document):
    """Rounds that go on without late workers (GOAT §V).

    Attributes:
        counts: how many each node's rounds take; a node that is not listed takes all. Where servers sum, each node of
            the exponents' stream counts its children; where switches do, the root alone counts, and it counts workers.
        most_missed: most rounds in a row that go on without the same worker.
    """

    counts: list[RoundCount]
    most_missed: Annotated[int, Field(ge=1, le=MAX_MISSED)]


class PlanJob(Document):
    """What all participants of a job agree on.

    Attributes:
        id: number of the job on its aggregators.
        secret: 64 hexadecimal digits, or the keys of one node (`wiresum keys`): what seats are taken with. A plan's
            file leaves them to one of their own.
        values_per_packet: payload of a full packet in int32 lanes (twice as many values with 16-bit lanes).
        lanes: width and byte order of the lanes, or `auto`: each collective's are as wide as its elements.
        codec: how floats become integers, `block` or `fixed:<factor>`.
        exponents: with `block`, whether values wait until all ranks have agreed on theirs, or flow with those expected.
        rounds: that go on without late workers; absent where every round takes every worker.
        sealed: whether sums are sealed: nodes learn nothing of the values, and what they change is found.
        proven: whether values carry proofs: who reads packets and forges addresses changes no sum.
        groups: of the workers, by rank, that sum by themselves, each as a job of its own; ranks in ascending order.
        threads: of each rank: each beyond the first sums its parts of large tensors as a job of its own, too.
    """

    id: U16
    secret: str | None = None
    values_per_packet: U16
    lanes: Lanes = "int32-le"
    codec: str = "block"
    exponents: Exponents = "agreed"
    rounds: Rounds | None = None
    sealed: bool = False
    proven: bool = False
    groups: list[list[U32]] | None = None
    threads: U16 = 1

    @property
    def waits_for_all(self) -> bool:
        """Whether no value of a collective flows before every rank has come, as exponents are agreed on first."""
        return agrees(self.codec) and self.exponents == "agreed"

    @property
    def payload_bytes(self) -> int:
        """Bytes of payload in a full packet."""
        return self.values_per_packet * LANE_BYTES

    @property
    def proof_bytes(self) -> int:
        """Bytes of the proof behind the values of a packet."""
        return PROOF_LEN if self.proven else 0

    @property
    def packet_values(self) -> int:
        """int32 lanes of a full packet that carry values; the others are its seal."""
        return self.values_per_packet - (SEAL_LEN // LANE_BYTES if self.sealed else 0)

    @property
    def value_bytes(self) -> int:
        """Bytes of a float32 on its way."""
        return lane_bytes(self.lanes)

    def as_float32(self, size_bytes: int, element_bytes: int, *, eight_bits: bool = False) -> int:
        """Bytes of float32 that take as much of the wire as these of elements of another size, or sent as 8 bits."""
        elements = size_bytes // element_bytes
        sent = 1 if eight_bits else lane_bytes(self.lanes, element_bytes)
        return FLOAT32_BYTES * elements * sent // self.value_bytes


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
    address: SocketAddress
    engine: Engine = "udp"
    ingress_bps: Bandwidth | None = None
    egress_bps: Bandwidth | None = None

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
    value: Number
    bound: Number | None = None
    gap: Number | None = None
    seed: U32 | None = None
    seconds: Amount | None = None

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

    format: Literal["wiresum-plan/2"]
    planner: str = ""
    solution: Solution | None = None
    job: PlanJob
    nodes: list[PlanNode]
    workers: Annotated[list[PlanWorker], Field(min_length=1)]
    streams: list[PlanStream]
    fabric: PlanFabric | None = None
    sparse: PlanSparse | None = None

    @model_validator(mode="before")
    @classmethod
    def _present(cls, document: object) -> object:
        """The document in the present format."""
        if not isinstance(document, dict) or document.get("format") != VERSION_1:
            return document
        try:
            return json.loads(native().convert_plan(json.dumps(document)))
        except PlanError as wrong:
            raise ValueError(str(wrong)) from None

    @model_validator(mode="after")
    def _keeps_the_rules(self) -> Self:
        wrong = native().validate_plan(self._compact())
        if wrong is not None:
            field, problem = wrong
            raise ValueError(f"{field}: {problem}" if field else problem)
        return self

    @classmethod
    def read_public(cls, path: Path | str) -> Self:
        """Reads a file as it is, for commands that take no part in the job: the file of the secret stays closed.

        Raises:
            PlanError: it cannot be read, or is wrong; with a line for each bad field.
        """
        return super().read(path)

    @classmethod
    def read(cls, path: Path | str, secret: Path | None = None) -> Self:
        """Reads a file, and the secret from one of its own where the plan has none.

        Args:
            path: the plan's.
            secret: the secret's; `PATH.secret` where absent, which may be missing as long as nobody joins the job.

        Raises:
            PlanError: one of them cannot be read, or is wrong; with a line for each bad field.
        """
        plan = super().read(path)
        file = secret or secret_beside(path)
        if plan.job.secret is not None or not (secret or file.exists()):
            return plan
        keys = read_text(file, "secret", PlanError).strip()
        try:
            return cls.build(**{**dict(plan), "job": {**dict(plan.job), "secret": keys}})
        except PlanError as refused:
            raise PlanError(f"secret {file}: {str(refused).removeprefix(BAD_SECRET)}") from None

    def write(self, path: Path | str) -> None:
        """Writes the plan to a file that everyone may read, and its secret to one beside it that only its owner may."""
        write_text(path, self.without_secret().to_json(), self.what, self.error)
        if self.job.secret is not None:
            write_text(secret_beside(path), self.job.secret + "\n", "secret", self.error, is_secret=True)

    def keys_of(self, node_id: int) -> str:
        """The key file of a node: what it needs of the secret, and no more.

        Raises:
            PlanError: there is no such node, or the plan has no secret to make keys of.
        """
        self.node(node_id)
        keys: str | None = native().node_keys(self._compact(), node_id)
        if keys is None:
            raise PlanError("the plan has no secret to make a node's keys of: give the file with all of it")
        return keys

    def held_by(self, node_id: int) -> Self:
        """The plan as a node's daemon needs it: with that node's keys in place of the secret.

        Raises:
            PlanError: there is no such node.
        """
        self.node(node_id)
        keys: str | None = native().node_keys(self._compact(), node_id)
        return self if keys is None else self.model_copy(update={"job": self.job.model_copy(update={"secret": keys})})

    def without_secret(self) -> Self:
        """The plan that everyone may see."""
        return self.model_copy(update={"job": self.job.model_copy(update={"secret": None})})

    def digest(self) -> str:
        """A fingerprint of all that participants must agree on; nodes and workers compare it when they join."""
        return f"{native().plan_digest(self._compact()):016x}"

    def group(self, number: int) -> Self:
        """The plan of a job that follows, by its number from 1: this one pruned to its seats, with keys of its own.

        Thread t of group g, where 0 is all workers, has the number g times `job.threads` plus t.

        Raises:
            PlanError: there is no such job.
        """
        return self.parse(native().group_of_plan(self._compact(), number), f"group {number} of the plan")

    def jobs_of(self, ranks: Sequence[int]) -> list[Self]:
        """The jobs that these ranks may be the workers of, in this order: the plan's own, and those of its groups.

        Each is that of their first threads, from which those of the others follow.
        """
        seats = list(ranks)
        whole = [self] if seats == list(range(len(self.workers))) else []
        numbers = [number for number, group in enumerate(self.job.groups or [], 1) if group == seats]
        return [*whole, *(self.group(number * self.job.threads) for number in numbers)]

    def derived(self) -> Derived:
        """What follows from the fabric: who is summed where, and what crosses which link."""
        return _derived(self._compact())

    def _compact(self) -> str:
        return self.model_dump_json(exclude_none=True)

    def node(self, node_id: int) -> PlanNode:
        """The aggregator of that id.

        Raises:
            PlanError: there is none.
        """
        found = next((node for node in self.nodes if node.id == node_id), None)
        if found is None:
            known = ", ".join(str(node.id) for node in self.nodes)
            raise PlanError(f"the plan has no node {node_id}; its nodes are {known}")
        return found


def secret_beside(path: Path | str) -> Path:
    """The file with the secret of a plan's file."""
    return Path(f"{path}.secret")


@lru_cache(maxsize=4)
def _derived(text: str) -> Derived:
    """What follows from a plan that is given as JSON. Kept, as callers ask for one stream after another."""
    return Derived.model_validate_json(native().derive_plan(text))


def agrees(codec: str) -> bool:
    """Whether ranks agree on an exponent for each packet before its values flow; false where there is no such codec."""
    return bool(native().codec_agrees(codec))


def native() -> ModuleType:
    """What knows the rules, loaded when a plan is there.

    Raises:
        PlanError: it cannot be loaded.
    """
    try:
        return import_module("wiresum._native")
    except ImportError as error:
        raise PlanError(why_missing(error)) from error
