# SPDX-License-Identifier: Apache-2.0
"""Writes ``proofs.json``: proven values that every implementation of ``spec/security.md`` has to agree on.

This is a second implementation, on purpose: HKDF-SHA-256, NH and SipHash-2-4 from their papers, and nothing of
``crates/keys``. Run ``python spec/vectors/proofs.py`` after a change of the format; ``--check`` only compares.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
import sys
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).with_name("proofs.json")
SALT = b"wiresum keys 2"
FIELDS_LEN = 32
HASH_KEY_LEN = 2944
MASK = 2**64 - 1


def hkdf(key: bytes, label: str, *numbers: int, length: int = 32) -> bytes:
    """RFC 5869's expansion."""
    info = label.encode() + b"\0" + b"".join(struct.pack(">Q", number) for number in numbers)
    made, block = b"", b""
    for count in range(1, -(-length // 32) + 1):
        block = hmac.digest(key, block + info + bytes([count]), hashlib.sha256)
        made += block
    return made[:length]


def nh(key: bytes, payload: bytes) -> int:
    """The hash of CRYPTO '99, with words of 32 bits."""
    count = len(payload) // 4
    words = struct.unpack(f"<{count}I", payload)
    keys = struct.unpack(f"<{count}I", key[: len(payload)])
    added = [(word + key) % 2**32 for word, key in zip(words, keys, strict=True)]
    return sum(added[i] * added[i + 1] for i in range(0, count, 2)) % 2**64


def siphash(key: bytes, message: bytes) -> int:
    """SipHash-2-4 of Aumasson and Bernstein."""
    k0, k1 = struct.unpack("<2Q", key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rotated(word: int, bits: int) -> int:
        return (word << bits | word >> (64 - bits)) & MASK

    def mix() -> None:
        v[0] = (v[0] + v[1]) & MASK
        v[2] = (v[2] + v[3]) & MASK
        v[1], v[3] = rotated(v[1], 13) ^ v[0], rotated(v[3], 16) ^ v[2]
        v[0] = rotated(v[0], 32)
        v[2] = (v[2] + v[1]) & MASK
        v[0] = (v[0] + v[3]) & MASK
        v[1], v[3] = rotated(v[1], 17) ^ v[2], rotated(v[3], 21) ^ v[0]
        v[2] = rotated(v[2], 32)

    whole = len(message) // 8 * 8
    last = message[whole:].ljust(7, b"\0") + bytes([len(message) % 256])
    for (word,) in struct.iter_unpack("<Q", message[:whole] + last):
        v[3] ^= word
        mix()
        mix()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(4):
        mix()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def vector(number: int, lanes: int) -> dict[str, Any]:
    """A header and a payload without meaning, and their proof."""
    secret = hashlib.sha256(b"secret of vector %d" % number).digest()
    node, stream, contributor = 3 * number, 2 * number, number
    root = hmac.digest(SALT, secret, hashlib.sha256)
    seat = hkdf(hkdf(root, "node", node), "seat", stream, contributor)
    header = hashlib.shake_128(b"header %d" % number).digest(38)
    payload = hashlib.shake_128(b"payload %d" % number).digest(4 * lanes)
    key = hkdf(hkdf(root, "workers"), "hash", length=HASH_KEY_LEN)
    hashed = nh(key, payload)
    flags = struct.pack(">Q", int.from_bytes(header[FIELDS_LEN : FIELDS_LEN + 2]))
    proof = siphash(hkdf(seat, "tags", length=16), header[:FIELDS_LEN] + flags + struct.pack(">Q", hashed))
    return {
        "secret": secret.hex(), "node": node, "stream": stream, "contributor": contributor, "header": header.hex(),
        "payload": payload.hex(), "hash": f"{hashed:016x}", "proof": f"{proof:016x}",
    }  # fmt: skip


def document() -> str:
    """The text of ``proofs.json``: one vector a line."""
    lines = ",\n".join(json.dumps(vector(number, lanes)) for number, lanes in enumerate((8, 64, 352, 736)))
    return f"[\n{lines}\n]\n"


def main() -> None:
    """Writes the vectors, or compares them."""
    if "--check" not in sys.argv:
        OUTPUT.write_text(document())
    elif OUTPUT.read_text() != document():
        sys.exit(f"{OUTPUT} is not what spec/vectors/proofs.py makes: run it")


if __name__ == "__main__":
    main()
