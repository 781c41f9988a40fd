# SPDX-License-Identifier: Apache-2.0
"""Writes ``packets.json``: golden packets that every implementation of the format has to agree on.

This is a second implementation of the format, on purpose: it follows ``spec/wire.md`` and shares nothing with
``crates/wire``. Run ``python spec/vectors/packets.py`` after a change of the format; ``--check`` only compares.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).with_name("packets.json")
FORMAT = "wiresum-packets/1"

LAYOUT = struct.Struct(">HBBHHQIIHHBBbBHI")
FIELDS = [
    "magic",
    "version",
    "kind",
    "job",
    "node",
    "job_key",
    "round",
    "fragment",
    "sub_model",
    "value_count",
    "contributor",
    "expected",
    "exponent",
    "priority",
    "flags",
    "check",
]
KINDS = {
    name: number
    for number, name in enumerate(
        ("contribution", "result", "probe", "status", "hello", "welcome", "refusal", "goodbye", "ready", "rate"), 1
    )
}
LITTLE_ENDIAN, MAXIMUM, LANES16, RETRANSMISSION, END_OF_GROUP, ECN, OVERFLOW, COLLISION = (1 << bit for bit in range(8))
PROVEN = 1 << 14
PROOF = bytes.fromhex("0123456789abcdef")

# Lanes with every sign, both extremes, and bytes that tell one order from the other.
LANES = {32: [0, 1, -1, 0x01020304, -0x01020304, 2**31 - 1, -(2**31), 305419896], 16: []}
LANES[16] = [0, 1, -1, 0x0102, -0x0102, 2**15 - 1, -(2**15), 4660] * 2


def lane_format(kind: str, flags: int) -> tuple[str, str, int]:
    """Byte order and letter of a payload's lanes for ``struct``, and the modulus of their sum."""
    if kind not in ("contribution", "result"):
        return ">", "i", 1 << 32
    letter, modulus = ("h", 1 << 16) if flags & LANES16 else ("i", 1 << 32)
    return "<" if flags & LITTLE_ENDIAN else ">", letter, modulus


def packet(kind: str, lanes: list[int], **fields: int) -> tuple[dict[str, int], bytes]:
    """Fields and bytes of a well-formed packet."""
    header = dict.fromkeys(FIELDS, 0) | {
        "magic": 0x5753,
        "version": 2,
        "kind": KINDS[kind],
        "job": 7,
        "node": 3,
        "job_key": 0xDEADBEEF_01020304,
        "round": 5,
        "fragment": 0x01020304,
        "sub_model": 1,
        "value_count": len(lanes),
        "contributor": 2,
        "expected": 4,
        **fields,
    }
    order, letter, modulus = lane_format(kind, header["flags"])
    payload = struct.pack(f"{order}{len(lanes)}{letter}", *lanes)
    without_check = LAYOUT.pack(*header.values())[:-4]
    words = struct.unpack(">8I", without_check[:32])
    (flags,) = struct.unpack(">H", without_check[32:])
    header["check"] = (sum(words) + flags + sum(lanes) % modulus) % 2**32
    return header, LAYOUT.pack(*header.values()) + payload


def double(number: int) -> list[int]:
    """A 64-bit number as two words, high word first, each as a signed lane."""
    return [signed(number >> 32), signed(number & 0xFFFFFFFF)]


def signed(word: int) -> int:
    """A 32-bit word as a signed lane."""
    return word - (word >> 31 << 32)


def well_formed() -> dict[str, tuple[dict[str, int], list[int], bytes]]:
    """Packets by name: header, lanes, bytes."""
    proof = double(0x0123456789ABCDEF)
    probe = [*proof, 0, 0, 0, 0x11223344] + [0] * 98
    status = (
        [*proof, 1, *double(0b0100), 0x11223344]
        + [0] * 2
        + [signed(0xFFFFFFFF)] * 32
        + [signed(0x80000001)] * 32
        + [1] * 32
    )
    hello = proof + double(1_700_000_000_000_000) + double(0xFEDCBA9876543210) + [0] * 10
    refusal = [*hello[:6], 3, 0] + [0] * 8
    fewer = [*hello[:8], 1 << 1, 1 << 8] + [0] * 6
    ready = [*proof, 9, 1, *double(10_000_000_000), *double(4_400_000_000), 12_000] + [0] * 7
    heartbeat = [*proof, 12, 2, *[0] * 6, 1000, 0] + [0] * 4
    report = [*proof, 0, 2, *[0] * 7, 8] + [0] * 4
    rate = [*proof, 9, 4, *double(5_000_000_000), 0, 0]
    notice = [*proof, *[0] * 5, 8]
    full = [(i * 2654435761 % 2**32) - 2**31 for i in range(736)]
    cases: dict[str, tuple[str, list[int], dict[str, int]]] = {
        "contribution of 32-bit little-endian lanes": ("contribution", LANES[32], {"flags": LITTLE_ENDIAN}),
        "contribution of 32-bit network-order lanes": ("contribution", LANES[32], {"exponent": -128}),
        "contribution of 16-bit little-endian lanes": ("contribution", LANES[16], {"flags": LITTLE_ENDIAN | LANES16}),
        "contribution of 16-bit network-order lanes": ("contribution", LANES[16], {"flags": LANES16, "exponent": 127}),
        "contribution to be combined by maximum": (
            "contribution",
            [-(2**31)] * 7 + [2**31 - 1],
            {"flags": LITTLE_ENDIAN | MAXIMUM, "sub_model": 0},
        ),
        "retransmission at the end of a group": (
            "contribution",
            LANES[32],
            {"flags": LITTLE_ENDIAN | RETRANSMISSION | END_OF_GROUP, "fragment": 2**32 - 1},
        ),
        "fullest packet": ("contribution", full, {"flags": LITTLE_ENDIAN, "exponent": -9}),
        "result with congestion, overflow and collision": (
            "result",
            LANES[32],
            {"flags": LITTLE_ENDIAN | ECN | OVERFLOW | COLLISION, "priority": 200},
        ),
        "every identifier at its largest": (
            "result",
            LANES[32],
            dict.fromkeys(("job", "node", "sub_model"), 2**16 - 1)
            | {"job_key": 2**64 - 1}
            | dict.fromkeys(("round", "fragment"), 2**32 - 1)
            | dict.fromkeys(("contributor", "expected", "priority"), 255),
        ),
        "probe": ("probe", probe, {}),
        "status": ("status", status, {}),
        "hello": ("hello", hello, {"sub_model": 0}),
        "hello of a job that goes on without ranks 1 and 40": ("hello", fewer, {"sub_model": 0}),
        "welcome": ("welcome", hello, {"sub_model": 0}),
        "refusal of another plan": ("refusal", refusal, {"sub_model": 0}),
        "goodbye": ("goodbye", hello, {"sub_model": 0, "round": 6}),
        "ready to send after a loss": ("ready", ready, {}),
        "rate beyond 32 bits": ("rate", rate, {}),
        "heartbeat of a worker that counts as lost after a second": ("ready", heartbeat, {"sub_model": 0}),
        "heartbeat of a node that reports rank 7 lost": ("ready", report, {"sub_model": 0}),
        "notice that rank 7 is lost": ("rate", notice, {"sub_model": 0}),
    }
    packets = {}
    for name, (kind, lanes, fields) in cases.items():
        header, data = packet(kind, lanes, **fields)
        packets[name] = (header, lanes, data)
    for kind in ("contribution", "result"):
        header, data = packet(kind, LANES[32], flags=LITTLE_ENDIAN | PROVEN)
        packets[f"{kind} with a proof of its values"] = (header, LANES[32], data + PROOF)
    header, data = packet("contribution", full, flags=PROVEN)
    packets["fullest packet with a proof"] = (header, full, data + PROOF)
    header, data = packet("hello", hello, flags=PROVEN)
    packets["hello with a flag that says nothing there"] = (header, hello, data)
    return packets


def malformed() -> dict[str, tuple[bytes, str]]:
    """Datagrams that are no packets, and the error that each must give."""
    _, good = packet("contribution", LANES[32], flags=LITTLE_ENDIAN)

    def with_byte(index: int, value: int) -> bytes:
        return good[:index] + bytes([value]) + good[index + 1 :]

    return {
        "nothing": (b"", "truncated"),
        "one byte less than a header": (good[:37], "truncated"),
        "header alone": (good[:38], "truncated"),
        "last byte missing": (good[:-1], "truncated"),
        "one byte more": (good + b"\0", "trailing_bytes"),
        "a proof that no flag tells of": (good + PROOF, "trailing_bytes"),
        "a flag without its proof": (packet("result", LANES[32], flags=PROVEN)[1], "truncated"),
        "last byte of a proof missing": (packet("result", LANES[32], flags=PROVEN)[1] + PROOF[:-1], "truncated"),
        "another magic": (with_byte(0, 0x58), "magic"),
        "another version": (with_byte(2, 1), "version"),
        "another magic and version": (b"\0" * 70, "magic"),
        "kind 0": (with_byte(3, 0), "kind"),
        "kind 11": (with_byte(3, 11), "kind"),
        "contribution without lanes": (packet("contribution", [])[1], "payload_length"),
        "half a block": (packet("contribution", [0] * 4)[1], "payload_length"),
        "half a block of 16-bit lanes": (packet("contribution", [0] * 8, flags=LANES16)[1], "payload_length"),
        "one block too many": (packet("result", [0] * 2240)[1], "payload_length"),
        "lanes announced at their most": (with_byte(26, 255), "payload_length"),
        "probe of a hello's length": (packet("probe", [0] * 16)[1], "payload_length"),
        "status without words": (packet("status", [])[1], "payload_length"),
        "hello of a block too few": (packet("hello", [0] * 8)[1], "payload_length"),
        "hello of a block too many": (packet("hello", [0] * 24)[1], "payload_length"),
        "ready without words": (packet("ready", [])[1], "payload_length"),
        "rate of a block too many": (packet("rate", [0] * 16)[1], "payload_length"),
        "goodbye without words": (packet("goodbye", [])[1], "payload_length"),
        "flag for 16-bit lanes got set": (with_byte(33, LITTLE_ENDIAN | LANES16), "payload_length"),
        "fragment damaged": (with_byte(23, 5), "check"),
        "contributor damaged": (with_byte(28, 3), "check"),
        "first lane damaged": (with_byte(38, 1), "check"),
        "last lane damaged": (with_byte(69, 0), "check"),
        "check damaged": (with_byte(37, good[37] ^ 1), "check"),
        "byte order lost": (with_byte(33, 0), "check"),
    }


def document() -> str:
    """The text of ``packets.json``: one packet per line."""
    good: list[dict[str, Any]] = [
        {"name": name, "header": header, "lanes": lanes, "bytes": data.hex()}
        for name, (header, lanes, data) in well_formed().items()
    ]
    bad = [{"name": name, "error": error, "bytes": data.hex()} for name, (data, error) in malformed().items()]
    body = {
        key: "[\n    " + ",\n    ".join(json.dumps(entry) for entry in entries) + "\n  ]"
        for key, entries in (("packets", good), ("malformed", bad))
    }
    return f'{{\n  "format": "{FORMAT}",\n  "packets": {body["packets"]},\n  "malformed": {body["malformed"]}\n}}\n'


def main() -> int:
    """Writes or compares the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is out of date")
    if not parser.parse_args().check:
        OUTPUT.write_text(document())
    elif OUTPUT.read_text() != document():
        print(f"{OUTPUT} is out of date: run `python spec/vectors/packets.py`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
