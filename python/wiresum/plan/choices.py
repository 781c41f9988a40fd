"""What a job or a plan may choose from, and what it has where nothing is chosen.

Apart from the models of files: command lines offer these choices, and start before those models are loaded.
"""

from typing import Final, Literal

from wiresum.wire import ExactPolicy

Lanes = Literal["int32-le", "int32-be", "int16-le", "int16-be"]
Engine = Literal["xdp", "af_xdp", "udp", "tcp"]
XDP_ENGINES: Final[frozenset[Engine]] = frozenset({"xdp", "af_xdp"})
"""Those that run a program on each interface, and send past its queueing discipline."""
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
