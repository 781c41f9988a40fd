"""bpf(2), for programs of a few instructions, which need no compiler."""

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wiresum.errors import SupportError

BPF_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
"""Number of bpf(2)."""
BPF_MAP_CREATE = 0
BPF_MAP_LOOKUP_ELEM = 1
BPF_PROG_LOAD = 5
BPF_PROG_ATTACH = 8
BPF_MAP_UPDATE_BATCH = 26
BPF_MAP_TYPE_ARRAY = 2
BPF_PROG_TYPE_SCHED_CLS = 3
BPF_PROG_TYPE_XDP = 6
BPF_TCX_INGRESS = 46
BPF_TCX_EGRESS = 47
TCX_NEXT, TCX_DROP = -1, 2
XDP_PASS = 2
INSTRUCTION_BYTES = 8
KEY_BYTES = 4
LICENSE = b"Dual BSD/GPL\0"

LOAD_32, LOAD_64, STORE_VALUE_32, ADD_ATOMICALLY = 0x61, 0x79, 0x62, 0xDB
MOVE, MOVE_VALUE, ADD, ADD_VALUE, MULTIPLY, XOR, SHIFT_RIGHT = 0xBF, 0xB7, 0x0F, 0x07, 0x2F, 0xAF, 0x77
JUMP, JUMP_IF_EQUAL, JUMP_UNLESS_SAME, JUMP_IF_LESS = 0x05, 0x15, 0x5D, 0xAD
"""The second one compares with an immediate value, the others with a register."""
CALL, EXIT = 0x85, 0x95
LOAD_ADDRESS = 0x18
"""Opcode of the load of 64 bits, in two instructions."""
FETCH = 0x01
"""Immediate value of an atomic addition that leaves the sum of before in its source."""
MAP, MAP_VALUE = 1, 2
"""What a load of 64 bits is given: the descriptor of a map, whose address it loads, or that of its first value."""
FRAME = 10
"""Register with the end of the stack."""
LOOKUP, NOW, REDIRECT = 1, 5, 23
"""Helpers of the kernel: bpf_map_lookup_elem, bpf_ktime_get_ns (CLOCK_MONOTONIC), bpf_redirect."""


@dataclass(frozen=True)
class Jump:
    """A jump forwards, to a label.

    Attributes:
        label: where to.
        code: opcode.
        target: register that is compared.
        source: register that it is compared with.
        value: immediate value that it is compared with.
    """

    label: str
    code: int = JUMP
    target: int = 0
    source: int = 0
    value: int = 0


Line = bytes | str | Jump
"""Some instructions, a label, or a jump to one."""


def instruction(code: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    """One instruction: opcode, registers, offset and immediate value."""
    return struct.pack("=BBhi", code, source << 4 | target, offset, value)


def load_64(register: int, value: int, kind: int = 0) -> bytes:
    """Two instructions, after which a register has 64 bits, or an address of a map (`MAP`, `MAP_VALUE`)."""
    low, high = struct.unpack("=ii", struct.pack("=Q", value))
    return instruction(LOAD_ADDRESS, register, kind, value=low) + instruction(0, value=high)


def assemble(lines: Sequence[Line]) -> bytes:
    """A program, with the distances of its jumps.

    Example:
        >>> jump = assemble([Jump("end"), instruction(EXIT), "end"])
        >>> struct.unpack_from("=h", jump, 2)
        (1,)
    """
    places: dict[str, int] = {}
    position = 0
    for line in lines:
        if isinstance(line, str):
            places[line] = position
        else:
            position += len(line) // INSTRUCTION_BYTES if isinstance(line, bytes) else 1
    made = b""
    for line in lines:
        if isinstance(line, bytes):
            made += line
        elif isinstance(line, Jump):
            distance = places[line.label] - len(made) // INSTRUCTION_BYTES - 1
            made += instruction(line.code, line.target, line.source, distance, line.value)
    return made


def call(command: int, attributes: bytes, what: str) -> int:
    """One call of bpf(2).

    Args:
        command: its number.
        attributes: the union of its arguments; what addresses in it point to must outlive the call.
        what: names the attempt in the error.

    Raises:
        SupportError: no privilege, an older kernel, or a machine without BPF.
    """
    number = BPF_SYSCALL.get(platform.machine())
    if number is None:
        raise SupportError(f"{what}: BPF is not known to work on {platform.machine()}; use the engine `udp`, no loss")
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(libc.syscall(number, command, ctypes.c_char_p(attributes), len(attributes)))
    if result < 0:
        raise SupportError(f"{what}: the kernel refused ({os.strerror(ctypes.get_errno())}); is this root?")
    return result


def load(kind: int, program: bytes, what: str) -> int:
    """Loads a program and returns its descriptor.

    Args:
        kind: type of the program.
        program: its instructions.
        what: names the attempt in the error.

    Raises:
        SupportError: as `call`.
    """
    instructions = ctypes.create_string_buffer(program, len(program))
    license_name = ctypes.create_string_buffer(LICENSE)
    count = len(program) // INSTRUCTION_BYTES
    addresses = ctypes.addressof(instructions), ctypes.addressof(license_name)
    return call(BPF_PROG_LOAD, struct.pack("=IIQQ", kind, count, *addresses), what)


def create_array(value_bytes: int, what: str, values: int = 1) -> int:
    """Makes a map of so many values, all zero, and returns its descriptor.

    Raises:
        SupportError: as `call`.
    """
    return call(BPF_MAP_CREATE, struct.pack("=IIII", BPF_MAP_TYPE_ARRAY, KEY_BYTES, value_bytes, values), what)


def write_array(descriptor: int, values: Mapping[int, bytes], what: str) -> None:
    """Writes some values of a map with one call.

    Args:
        descriptor: of the map.
        values: by their index.
        what: names the attempt in the error.

    Raises:
        SupportError: as `call`.
    """
    keys = ctypes.create_string_buffer(b"".join(index.to_bytes(KEY_BYTES, sys.byteorder) for index in values))
    content = ctypes.create_string_buffer(b"".join(values.values()))
    addresses = ctypes.addressof(keys), ctypes.addressof(content)
    call(BPF_MAP_UPDATE_BATCH, struct.pack("=QQQQIIQQ", 0, 0, *addresses, len(values), descriptor, 0, 0), what)


def read_array(descriptor: int, value_bytes: int, what: str, index: int = 0) -> bytes:
    """A value of a map.

    Raises:
        SupportError: as `call`.
    """
    key = ctypes.create_string_buffer(index.to_bytes(KEY_BYTES, sys.byteorder), KEY_BYTES)
    value = ctypes.create_string_buffer(value_bytes)
    attributes = struct.pack("=IxxxxQQQ", descriptor, ctypes.addressof(key), ctypes.addressof(value), 0)
    call(BPF_MAP_LOOKUP_ELEM, attributes, what)
    return value.raw


def attach(program: int, interface_index: int, kind: int, what: str) -> None:
    """Attaches a program to an interface of this thread's namespace until the interface goes.

    Args:
        program: its descriptor.
        interface_index: of the interface.
        kind: where to attach.
        what: names the attempt in the error.

    Raises:
        SupportError: as `call`.
    """
    call(BPF_PROG_ATTACH, struct.pack("=IIIIII", interface_index, program, kind, 0, 0, 0) + bytes(8), what)
