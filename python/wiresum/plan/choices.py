"""What a job or a plan may choose from, and what it has where nothing is chosen.

Apart from the models of files: command lines offer these choices, and start before those models are loaded.
"""

from typing import Final, Literal, get_args

from wiresum.wire import ExactPolicy

Lanes = Literal["auto", "int32-le", "int32-be", "int16-le", "int16-be"]
"""Width and byte order of values on the wire; `auto`: as wide as each collective's elements, little-endian."""
MAX_NARROW_WORKERS: Final = 128
"""Workers whose sums 16-bit lanes hold."""
MAX_PACKED_WORKERS: Final = 16
"""Workers whose sums numbers of 8 bits hold, several of which share a lane: `Format::packed` of `crates/codec`."""
MAX_THREADS: Final = 8
"""Threads of a rank."""
MAX_NODE_THREADS: Final = 16
"""Threads of a server in user space, which `wiresum-node` bounds alike."""
FLOAT32_BYTES: Final = 4
ElementType = Literal["float32", "bfloat16", "float16"]
"""Types of elements that the network sums."""
ELEMENT_BYTES: Final[dict[ElementType, int]] = {"float32": FLOAT32_BYTES, "bfloat16": 2, "float16": 2}


def lane_bytes(lanes: Lanes, element_bytes: int = FLOAT32_BYTES) -> int:
    """Bytes that an element takes on its way.

    Example:
        >>> lane_bytes("auto"), lane_bytes("auto", element_bytes=2), lane_bytes("int32-le", element_bytes=2)
        (4, 2, 4)
    """
    return min(element_bytes, FLOAT32_BYTES) if lanes == "auto" else int(lanes[3:5]) // 8


Engine = Literal["xdp", "af_xdp", "udp", "tcp"]
XDP_ENGINES: Final[frozenset[Engine]] = frozenset({"xdp", "af_xdp"})
"""Those that run a program on each interface, and send past its queueing discipline."""
Transport = Literal["auto", "udp", "af_xdp"]
"""What a worker's packets travel by: datagrams, or frames past the network stack; `auto` leaves it to the engine."""
Policy = Literal["pool", "cache"]
"""Slot policy of a server."""
Exponents = Literal["agreed", "expected"]

SwitchEngine = Literal["xdp", "udp"]
"""What runs a switch: the kernel or user space."""
SwitchPolicy = ExactPolicy
"""Slot policy of a switch, by name; `wire.POLICIES` has the properties."""

DEFAULT_MTU_BYTES = 3200
"""Room for the largest packet (736 values), within what plain XDP on veth carries."""
DEFAULT_WINDOW = 192
"""Fragments. 192 × 3 kB fill 500 Mbit/s for 9 ms, the round trip through shaped and busy links."""
DEFAULT_GRADIENT_BYTES = 64 * 10**6
"""Largest collective that `cache` holds whole, unless the job says otherwise: DDP's buckets are 25 MiB."""
DEFAULT_TIME_LIMIT_S = 30.0
"""Seconds that a planner has. Testbeds take one; 64 workers and 16 servers some."""
MAX_TRIES = 1000
"""More seeds than that find nothing better on any network here."""
DEFAULT_MOST_MISSED = 16
"""Rounds in a row without the same worker: DDP's buckets of some steps."""
MAX_MISSED = 1024
"""Most of these."""
DEFAULT_LOSS_SEED = 1
"""So that two runs lose the same packets unless another seed is asked for."""

CollectiveName = Literal[
    "all_reduce", "reduce_scatter", "all_gather", "pair", "broadcast", "reduce", "gather", "scatter"
]
COLLECTIVES: tuple[CollectiveName, ...] = get_args(CollectiveName)
"""Names in `torch.distributed`; `pair` is a reduce-scatter and an all-gather at once."""
RoundName = Literal[CollectiveName, "fsdp"]
FSDP: Final = "fsdp"
"""A step of a model that FSDP2 has sharded: many collectives, and computing between them."""
DEFAULT_BLOCKS = 8
"""As many as `wiresum bench fsdp` shards."""
MAX_BLOCKS = 1 << 10
"""More than any model has layers; a step's flows are still predicted in seconds."""
