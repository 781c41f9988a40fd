"""bpf(2), for programs of a few instructions, which need no compiler."""

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Mapping

from wiresum.errors import SupportError

BPF_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
"""Number of bpf(2)."""
BPF_MAP_CREATE = 0
BPF_MAP_LOOKUP_ELEM = 1
BPF_PROG_LOAD = 5
BPF_PROG_ATTACH = 8
BPF_MAP_UPDATE_BATCH = 26
BPF_MAP_TYPE_ARRAY = 2
INSTRUCTION_BYTES = 8
KEY_BYTES = 4
LICENSE = b"Dual BSD/GPL\0"


def instruction(code: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    """One instruction: opcode, registers, offset and immediate value."""
    return struct.pack("=BBhi", code, source << 4 | target, offset, value)


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
