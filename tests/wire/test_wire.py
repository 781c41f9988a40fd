"""The generated Python definitions read the golden packets."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from wiresum import wire

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "spec" / "vectors"
GOLDEN = json.loads((VECTORS / "packets.json").read_text())


@pytest.mark.parametrize("golden", GOLDEN["packets"], ids=lambda golden: golden["name"])
def test_golden_packets_unpack_to_their_fields(golden):
    data = bytes.fromhex(golden["bytes"])
    values = struct.unpack_from(wire.HEADER_FORMAT, data)
    assert dict(zip(wire.HEADER_FIELDS, values, strict=True)) == golden["header"]
    wire.Kind(golden["header"]["kind"])
    flags, carries_values = golden["header"]["flags"], golden["header"]["kind"] <= wire.Kind.RESULT
    width = 2 if flags & wire.Flag.LANES16 else 4
    proof_len = wire.PROOF_LEN if flags & wire.Flag.PROVEN and carries_values else 0
    assert len(data) == wire.HEADER_LEN + width * golden["header"]["value_count"] + proof_len


def test_control_words_are_where_the_constants_say():
    packets = {golden["name"]: golden["lanes"] for golden in GOLDEN["packets"]}
    status, refusal = packets["status"], packets["refusal of another plan"]
    assert len(status) == wire.STATUS_WORDS
    assert status[wire.STATUS_STATE_WORD] == wire.EntryState.FILLING
    assert status[wire.STATUS_CONTRIBUTORS_WORD : wire.STATUS_CONTRIBUTORS_WORD + 2] == [0, 0b0100]
    assert status[wire.STATUS_ECHO_WORD] == packets["probe"][wire.STATUS_ECHO_WORD] == 0x11223344
    assert status[wire.STATUS_HELD_WORD : wire.STATUS_COMPLETE_WORD] == [-1] * wire.BITMAP_WORDS
    assert status[wire.STATUS_FINAL_WORD :] == [1] * wire.BITMAP_WORDS
    assert len(refusal) == wire.HELLO_WORDS
    assert refusal[wire.HELLO_PROOF_WORD] == 0x01234567
    assert refusal[wire.HELLO_REASON_WORD] == wire.RefusalReason.OTHER_PLAN


@pytest.mark.parametrize("script", ["packets.py", "proofs.py", "rows.py"])
def test_golden_packets_are_what_the_second_implementation_writes(script):
    command = [sys.executable, str(VECTORS / script), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("compiler", ["cc", "clang-19"])
def test_the_c_header_stands_alone_and_its_assertions_hold(compiler):
    command = [
        compiler,
        "-x",
        "c",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        str(ROOT / "bpf" / "wiresum_wire.h"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
