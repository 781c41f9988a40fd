"""Words that plans of trees and plans of switches share: who takes part, and numbers with bounds."""

import re
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated

from pydantic import AfterValidator, Field

from wiresum.document import Document

MAX_U16 = (1 << 16) - 1
MAX_U32 = (1 << 32) - 1

U8 = Annotated[int, Field(ge=0, le=(1 << 8) - 1)]
U16 = Annotated[int, Field(ge=0, le=MAX_U16)]
U32 = Annotated[int, Field(ge=0, le=MAX_U32)]


class WorkerChild(Document):
    """A worker, by rank."""

    worker: U32


class NodeChild(Document):
    """An aggregator, switch or server, by id."""

    node: U16


Child = WorkerChild | NodeChild


def parse_socket_address(text: str) -> tuple[IPv4Address | IPv6Address, int]:
    """Splits `10.0.0.1:5747` or `[::1]:5747`.

    Raises:
        ValueError: it is neither.
    """
    match = re.fullmatch(r"(?:(?P<v4>[0-9.]+)|\[(?P<v6>[0-9a-fA-F:.]+)(?:%[0-9]+)?\]):(?P<port>[0-9]+)", text)
    if match is None or int(match["port"]) > MAX_U16:
        raise ValueError(f"must be an IP address and a port, as 10.0.0.1:5747 or [fd00::1]:5747, not {text}")
    return (IPv4Address(match["v4"]) if match["v4"] else IPv6Address(match["v6"])), int(match["port"])


def _checked(address: str) -> str:
    parse_socket_address(address)
    return address


SocketAddress = Annotated[str, AfterValidator(_checked)]
"""An IP address and a port, as `10.0.0.1:5747`."""
