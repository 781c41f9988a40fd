"""§V-E and §V-F: what concerns the switch."""

from __future__ import annotations

import json
from typing import Any

from wiresum._native import keyed_report
from wiresum.planners.tiers.instance import SLOT_BYTES, SLOT_VALUE_BYTES
from wiresum.reproduce.row import Row
from wiresum.reproduce.words import listed
from wiresum.reproduce.zebra import printed
from wiresum.sparse.synthetic import DIMENSION

KIB = 1024
SLOTS_BYTES = 4
REGISTERS, PAIRS, WORKERS, PACKETS = 24, 10, 32, 3_000
"""The program has registers for nine stages, pairs of 192 bytes, the paper's workers, and packets for all hot keys."""


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


def report(hot: int = 30_000) -> dict[str, Any]:
    """What the program `keyed` takes of a switch, by the model of a pipeline."""
    found: dict[str, Any] = json.loads(keyed_report(hot, REGISTERS, PAIRS, WORKERS, PACKETS))
    return found


def _ours() -> str:
    own = report()
    kib = {name: size / KIB for name, size in own.items() if name.endswith("bytes")}
    row = DIMENSION * SLOT_VALUE_BYTES + SLOT_BYTES
    return (
        f"`keyed` by the model of a pipeline: {own['stages']} of 12 stages, {own['arrays']} of 48 register arrays; "
        f"sums with tags {kib['sum_bytes']:.1f} KiB, which packets and workers are in {kib['control_bytes']:.1f} KiB; "
        f"beside the model, the map of keys {kib['key_bytes']:.1f} KiB for each pair that is looked up in a pass, and "
        f"tables of 16-bit floats {kib['float_bytes']:.1f} KiB, or {kib['matched_float_bytes']:.1f} KiB with the keys "
        f"that they match, of {100 * own['float_accuracy']:.2f} % accuracy; in a host 30,000 rows of {DIMENSION} "
        f"float32 as 64-bit fixed point take {30_000 * row / 1e6:.1f} MB"
    )


ROWS = (
    Row("Z11", "resources of the switch", "AH", "§V-F",
        f"{listed({name: f'{size:g} KB' for name, size in printed.MEMORY_KB.items()})}: 656.5 KB, 3.21 % of 20 MB; "
        "9 stages, 37 of 384 VLIW instructions, 16 of 32 hash units", recomputed=_memory, computed=_ours),
    Row("Z13", "tens of megabytes an iteration to the switch's processor, link of 100 Gbit/s", "-", "§III-F",
        "cited from the vendor", computed=lambda: "not repeated"),
    Row("Z14", "lines of the switch program", "-", "§IV", "more than 1,400 of P4-16", computed=lambda: "not repeated"),
)  # fmt: skip
