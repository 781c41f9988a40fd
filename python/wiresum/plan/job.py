"""What a planner is asked to place: a training job and its traffic."""

import math
import secrets
from typing import Annotated, Self

from pydantic import Field, model_validator

from wiresum.document import Document, Integer, PositiveBytes, PositiveCount
from wiresum.plan.aggregation_plan import LANE_BYTES, MAX_SLOTS, U16, agrees
from wiresum.plan.choices import (
    DEFAULT_GRADIENT_BYTES,
    DEFAULT_MTU_BYTES,
    DEFAULT_WINDOW,
    MAX_NARROW_WORKERS,
    MAX_THREADS,
    Exponents,
    Lanes,
    Policy,
    lane_bytes,
)
from wiresum.plan.groups import groups_of_mesh, require_all
from wiresum.wire import BLOCK_LEN, HEADER_LEN, MAX_VALUES, MIN_VALUES, PAGE_VALUES, PROOF_LEN, SEAL_LEN

IP_UDP_BYTES = 28
"""IPv4 and UDP headers."""


class JobSubModel(Document):
    """A part of the gradient that planners may place by itself, such as a layer.

    Attributes:
        name: of the layer, or of the layers that were put together.
        bytes: of its gradient, as float32.
    """

    name: str
    bytes: PositiveBytes


class Job(Document):
    """A job as its user describes it.

    Attributes:
        id: number of the job on its aggregators.
        secret: 64 hexadecimal digits, from which all keys follow; random by default.
        workers: names of the workers in rank order; all of the topology, in its order, where absent.
        mtu_bytes: IP packet size of the training network; sets the values per packet.
        jumbo: whether packets are as long as `mtu_bytes` allows. Otherwise they have at most the 736 values that
            programs in the kernel, AF_XDP frames and switches can see; only servers in user space sum longer ones.
        values_per_packet: int32 values of a full packet; what follows from `mtu_bytes` and `jumbo` where absent.
        lanes: width and byte order on the wire. `auto`: as wide as each collective's elements where the plan allows it,
            else `int32-le`.
        codec: `block` or `fixed:<factor>`.
        exponents: `agreed` by all ranks before values flow, or as `expected` from the collective before, so that no
            rank waits for a late one. Without effect on the codec `fixed`, which has none.
        sealed: whether sums are sealed: nodes learn nothing of the values, and what they change is found.
        proven: whether values carry proofs: who reads packets and forges addresses changes no sum.
        copies: whether the plan has streams for copies (all_gather, broadcast, gather, scatter), and for sums that one
            rank takes each (reduce_scatter, reduce). For servers only.
        copy_servers: most servers that these go through; as many as make a step of FSDP2 quicker where absent.
        mesh: sizes of the axes of a mesh of all workers, whose rows and columns are groups that sum by themselves.
        groups: more of them, by rank.
        threads: of each rank, which share the work on large tensors.
        policy: slot policy of the values.
        window: most fragments that a worker has sent without an acknowledgement.
        slots: slots of the values at each node; chosen from policy, window and gradient where absent.
        gradient_bytes: bytes of float32 in the largest collective; under `cache` it fits the slots whole.
        sub_models: what planners of switch networks place one by one; the gradient as one where absent.
    """

    id: U16 = 1
    secret: str = Field(default_factory=lambda: secrets.token_hex(32), pattern=r"^[0-9a-fA-F]{64}$")
    workers: list[str] | None = None
    mtu_bytes: Annotated[int, Field(ge=576, le=65535)] = DEFAULT_MTU_BYTES
    jumbo: bool = False
    values_per_packet: U16 | None = None
    lanes: Lanes = "auto"
    codec: str = "block"
    exponents: Exponents = "agreed"
    sealed: bool = False
    proven: bool = False
    copies: bool = False
    copy_servers: PositiveCount | None = None
    mesh: tuple[Integer, ...] | None = None
    groups: list[list[Integer]] | None = None
    threads: Annotated[int, Field(ge=1, le=MAX_THREADS)] = 1
    policy: Policy = "pool"
    window: Annotated[int, Field(ge=1, le=MAX_SLOTS)] = DEFAULT_WINDOW
    slots: Annotated[int, Field(ge=1, le=MAX_SLOTS)] | None = None
    gradient_bytes: PositiveBytes = DEFAULT_GRADIENT_BYTES
    sub_models: Annotated[list[JobSubModel], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.policy == "cache" and self.slots is None and self.fragments > MAX_SLOTS:
            raise ValueError(
                f"gradient_bytes: {self.fragments} fragments exceed {MAX_SLOTS} slots; use the policy `pool`"
            )
        if self.jumbo and (self.sealed or self.proven):
            raise ValueError(f"jumbo: packets of sums that are sealed or proven have at most {PAGE_VALUES} values")
        if self.copy_servers is not None and not self.copies:
            raise ValueError("copy_servers: nothing is copied; ask for `copies`, too, or leave it out")
        return self

    @property
    def parts(self) -> list[JobSubModel]:
        """The sub-models, at least one."""
        return self.sub_models or [JobSubModel(name="model", bytes=self.gradient_bytes)]

    @property
    def packet_values(self) -> int:
        """int32 lanes of a full packet."""
        if self.values_per_packet is not None:
            return self.values_per_packet
        proof = PROOF_LEN if self.proven else 0
        return values_for_mtu(self.mtu_bytes - proof, MAX_VALUES if self.jumbo else PAGE_VALUES)

    def lanes_of(self, workers: int) -> Lanes:
        """Lanes of a plan for so many workers, where servers sum."""
        is_fit = agrees(self.codec) and workers <= MAX_NARROW_WORKERS
        return self.lanes if self.lanes != "auto" or is_fit else "int32-le"

    def groups_of(self, workers: int) -> list[list[int]] | None:
        """Groups of a plan for so many workers; absent where there are none.

        Raises:
            PlanError: the mesh is of others.
        """
        if self.mesh is not None:
            require_all(self.mesh, workers)
        return [*(groups_of_mesh(self.mesh) if self.mesh else []), *(self.groups or [])] or None

    @property
    def fragments(self) -> int:
        """Fragments of the largest collective."""
        values_per_lane = LANE_BYTES // lane_bytes(self.lanes)
        values = -(-self.gradient_bytes // LANE_BYTES)
        sealed = SEAL_LEN // LANE_BYTES if self.sealed else 0
        return -(-values // ((self.packet_values - sealed) * values_per_lane))

    @property
    def value_slots(self) -> int:
        """Slots of the values when one stream carries them all."""
        return self.slots_of(1.0, self.window)

    def slots_of(self, share: float, window: int) -> int:
        """Slots of a stream: its fragments under `cache`, else twice its window so that it never waits.

        Args:
            share: fraction of the values that the stream carries.
            window: its window, in fragments.
        """
        if self.slots is not None:
            return self.slots
        # A round starts anywhere among the slots, and shares are cut at whole fragments.
        held = math.ceil(share * self.fragments)
        wanted = max(held, window) if self.policy == "cache" else 2 * window
        return min(1 << (wanted - 1).bit_length(), MAX_SLOTS)


def values_for_mtu(mtu_bytes: int, most: int = PAGE_VALUES) -> int:
    """The most int32 values whose packet fits an MTU, and no more than `most`.

    Example:
        >>> values_for_mtu(1500), values_for_mtu(9000), values_for_mtu(9000, MAX_VALUES)
        (352, 736, 2232)
    """
    payload = mtu_bytes - IP_UDP_BYTES - HEADER_LEN
    values = payload // BLOCK_LEN * BLOCK_LEN // LANE_BYTES
    return max(MIN_VALUES, min(values, most))
