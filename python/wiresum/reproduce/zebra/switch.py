"""§V-E and §V-F: what concerns the switch. Most of it waits for the switch program."""

from __future__ import annotations

from wiresum.planners.tiers.instance import SLOT_BYTES, SLOT_VALUE_BYTES
from wiresum.reproduce.row import Row
from wiresum.reproduce.words import listed
from wiresum.reproduce.zebra import printed
from wiresum.sparse.synthetic import DIMENSION

KIB = 1024
SLOTS_BYTES = 4


def memory_kb() -> float:
    """The sum of the parts.

    Example:
        >>> memory_kb()
        656.5
    """
    return sum(printed.MEMORY_KB.values())


def hot_kib(rows: int = 30_000) -> float:
    """Registers of 32 bits for hot parameters.

    Example:
        >>> round(hot_kib(), 1)
        117.2
    """
    return rows * SLOTS_BYTES / KIB


def _memory() -> str:
    share = memory_kb() / (printed.CHIP_MB * KIB)
    return (
        f"{memory_kb()} KB, {100 * share:.2f} % of 20 MB; 30,000 × 4 B = {hot_kib():.1f} KiB; 1 MB would hold "
        f"{KIB * KIB // SLOTS_BYTES:,} parameters, so memory does not set the 30,000"
    )


def _ours() -> str:
    row = DIMENSION * SLOT_VALUE_BYTES + SLOT_BYTES
    return (
        f"30,000 rows of {DIMENSION} float32 as 64-bit fixed point: {30_000 * row / 1e6:.1f} MB of a host's memory; "
        "the report of the switch program not yet"
    )


def _not_yet(what: str) -> str:
    return f"not yet: {what}"


ROWS = (
    Row("Z10", "latency that the switch's processor adds to a packet", "H", "§V-E", "4.45 ms",
        computed=lambda: _not_yet("the latency of the station; `wiresum bench rows` has what a row costs the kernel")),
    Row("Z11", "resources of the switch", "AH", "§V-F",
        f"{listed({name: f'{size:g} KB' for name, size in printed.MEMORY_KB.items()})}: 656.5 KB, 3.21 % of 20 MB; "
        "9 stages, 37 of 384 VLIW instructions, 16 of 32 hash units", recomputed=_memory, computed=_ours),
    Row("Z13", "tens of megabytes an iteration to the switch's processor, link of 100 Gbit/s", "-", "§III-F",
        "cited from the vendor", computed=lambda: "not repeated"),
    Row("Z14", "lines of the switch program", "-", "§IV", "more than 1,400 of P4-16", computed=lambda: "not repeated"),
)  # fmt: skip
