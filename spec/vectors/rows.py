# SPDX-License-Identifier: Apache-2.0
"""Writes ``rows.json``: golden packets of rows that every implementation of the format has to agree on.

This is a second implementation of the format, on purpose: it follows ``spec/wire.md`` ("Rows") and shares nothing with
``crates/wire``. Run ``python spec/vectors/rows.py`` after a change of the format; ``--check`` only compares.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).with_name("rows.json")
FORMAT = "wiresum-rows/1"

HEADER = struct.Struct(">HBBHHQIIHHBBbBHI")
ROWS = struct.Struct(">IIIHH")
LITTLE_ENDIAN, LANES16, FLOAT, BFLOAT = 1, 1 << 2, 1 << 12, 1 << 15
KINDS = {"push": 16, "hot rows": 17, "hot sums": 18, "row sums": 19, "pull": 25, "weights": 26, "acknowledgement": 27}

FLOATS = [1.0, -2.5, 0.0, 2.0**-20, -4095.75, 3.1415927410125732]
"""Numbers of float32."""
HALVES = [1.0, -2.5, 0.0, 2.0**-24, -4092.0, 0.333251953125]
"""Numbers of float16, the least one among them."""
BFLOATS = [1.0, -2.5, 0.0, 2.0**-100, -4080.0, 0.333984375]
"""Numbers of bfloat16."""
LANES = [1, -1, 2**62, -(2**62), 0, 0x0102030405060708]


def floats(values: Sequence[float]) -> bytes:
    """Little-endian float32."""
    return struct.pack(f"<{len(values)}f", *values)


def halves(values: Sequence[float]) -> bytes:
    """Little-endian float16."""
    return struct.pack(f"<{len(values)}e", *values)


def bfloats(values: Sequence[float]) -> bytes:
    """Little-endian bfloat16: the upper halves of float32."""
    return b"".join(struct.pack("<f", value)[2:] for value in values)


def whole(column: bytes) -> bytes:
    """A column in whole words."""
    return column + b"\0" * (-len(column) % 4)


def packet(kind: str, rows: int, dim: int, columns: bytes, flags: int, **fields: int) -> dict[str, Any]:
    """A packet with its check: all words of the header before it, then all words behind it as little-endian ones."""
    columns = whole(columns)
    second = ROWS.pack(fields.get("stamp", 9), fields.get("count", 0), fields.get("base", 0), rows, dim)
    flags |= LITTLE_ENDIAN | FLOAT
    header = (0x5753, 2, KINDS[kind], 7, 3, 0xDEADBEEF_01020304, 5, fields.get("fragment", 4), fields.get("table", 0),
              len(columns) // 4, 2, 0, 0, 0, flags)  # fmt: skip
    unsealed = HEADER.pack(*header, 0)[:-4]
    behind = second + columns
    words = [*struct.unpack(">8I", unsealed[:32]), *struct.unpack(f"<{len(behind) // 4}I", behind)]
    check = (sum(words) + flags) % 2**32
    return {"kind": KINDS[kind], "rows": rows, "dim": dim, "bytes": (HEADER.pack(*header, check) + behind).hex()}


def cases() -> dict[str, dict[str, Any]]:
    """Packets by name, each with what its columns say."""
    positions, base = [0x10000, 0x10007, 0x1FFFF], 0x10000
    offsets = whole(struct.pack(">3H", *(position - base for position in positions)))
    keys = [3, 2**63]
    column = struct.pack(">2Q", *keys)
    narrow = {"float16": (LANES16, HALVES, halves), "bfloat16": (LANES16 | BFLOAT, BFLOATS, bfloats)}
    types = {"float32": (0, FLOATS, floats), **narrow}
    made: dict[str, dict[str, Any]] = {}
    for name, (flags, values, packed) in types.items():
        made[f"hot rows of {name}"] = {
            **packet("hot rows", 3, 2, offsets + packed(values), flags, base=base),
            "positions": positions, "values": values,
        }  # fmt: skip
        made[f"push of {name}"] = {
            **packet("push", 2, 3, column + packed(values), flags, table=1), "keys": keys, "values": values,
        }  # fmt: skip
        made[f"weights of {name} that end within a word"] = {
            **packet("weights", 1, 5, packed(values[:5]), flags, table=1, stamp=1234), "values": values[:5],
        }  # fmt: skip
    counts = [1, 64, 3]
    made["hot sums, which are float32 whatever the flags say"] = {
        **packet("hot sums", 3, 2, whole(struct.pack(">3H", 0, 7, 0xFFFF) + bytes(counts)) + floats(FLOATS),
                 LANES16, base=base, count=2),
        "positions": positions, "counts": counts, "values": FLOATS,
    }  # fmt: skip
    made["hot sums of nothing"] = packet("hot sums", 0, 0, b"", 0, count=1)
    ranks = [1, 1 << 63, 0b1011]
    made["row sums"] = {
        **packet("row sums", 3, 2, offsets + struct.pack(">3Q", *ranks) + struct.pack("<6q", *LANES), 0, base=base),
        "positions": positions, "contributors": ranks, "lanes": LANES,
    }  # fmt: skip
    made["pull"] = {**packet("pull", 2, 0, column, 0, count=1), "keys": keys}
    made["acknowledgement of 4, 5 and 36"] = packet("acknowledgement", 1, 0, struct.pack(">I", 1 | 1 << 31), 0)
    return made


def text() -> str:
    """The file."""
    packets = [{"name": name, **made} for name, made in cases().items()]
    return json.dumps({"format": FORMAT, "packets": packets}, indent=1) + "\n"


def main() -> int:
    """Writes or compares the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only")
    if not parser.parse_args().check:
        OUTPUT.write_text(text())
        return 0
    if OUTPUT.read_text() == text():
        return 0
    print(f"{OUTPUT} is not what this script writes", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
