"""Calient optical switches by TL1: commands with tags, whose answers end with a semicolon, over TCP port 3082.

Messages that nobody has asked for come in between until `INH-MSG-ALL`, and are skipped. All commands of an order are
sent before the first answer is read, removals first. Connections are one-way (`1WAY`), named `from>to`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from wiresum.circuits.device import Connection, Description, PortState, Reading, State, worst
from wiresum.circuits.drivers.address import Address
from wiresum.circuits.drivers.session import Session
from wiresum.errors import CircuitError

USER, PASSWORD = "admin", "pxc***"
"""The login of a device as its maker delivers it."""
LIGHT_S = 0.2
"""Seconds from an order to light, if it is a large one whose conflicts the controller resolves."""
ANSWER = re.compile(r"^M\s+(\S+)\s+(COMPLD|DENY|PRTL|DELAY)\s*$", re.MULTILINE)
ROW = re.compile(r'^\s*"(.*)"\s*$', re.MULTILINE)
MAX_MESSAGES = 4096
"""Messages that nobody asked for, skipped while an answer is awaited; after more, the session has failed."""


class CalientTl1:
    """TL1 over a raw TCP connection."""

    def __init__(self, address: Address) -> None:
        self._address, self._name = address, address.name
        self._session = Session(address, greet=self._greet)
        self._tag = 0
        self._ports: list[str] = []

    def describe(self) -> Description:
        """Every port that the device has."""
        if not self._ports:
            self._ports = [row.partition(":")[0] for row in self._ask("RTRV-PORT::")]
        return Description("Calient", dict.fromkeys(self._ports), LIGHT_S)

    def read(self) -> Reading:
        """What is connected, and the state of every port."""
        ports = self.describe().sides
        rows = self._ask("RTRV-CRS::,")
        return self._session.understood(lambda: _reading(rows, list(ports)))

    def change(self, remove: Collection[Connection], add: Collection[Connection]) -> None:
        """Sends all commands of an order before the first answer is read."""
        commands = [(f"DLT-CRS::{one},{other}", f":{one}>{other}") for one, other in sorted(remove)]
        commands += [(f"ENT-CRS::{one},{other}", ":,1WAY") for one, other in sorted(add)]
        tags = [self._next_tag() for _ in commands]
        text = "".join(f"{head}:{tag}:{tail};" for (head, tail), tag in zip(commands, tags, strict=True))
        self._session.send(text.encode())
        refused = [told for tag in tags if (told := self._answer(tag))[0] != "COMPLD"]
        if refused:
            raise CircuitError(f"{self._name} refuses: {' '.join(refused[0][1].split())}")

    def close(self) -> None:
        """Ends the session; what is connected stays."""
        self._session.close()

    def _greet(self, session: Session) -> None:
        user, password = self._address.user or USER, self._address.password or PASSWORD
        for command in (f"ACT-USER::{user}:{{}}::{password};", "INH-MSG-ALL:::{};"):
            tag = self._next_tag()
            session.send(command.format(tag).encode())
            code, text = self._answer(tag)
            if code != "COMPLD":
                raise CircuitError(f"{self._name} refuses {command.partition(':')[0]}: {' '.join(text.split())}")

    def _ask(self, head: str) -> list[str]:
        tag = self._next_tag()
        self._session.send(f"{head}:{tag};".encode())
        code, text = self._answer(tag)
        if code != "COMPLD":
            raise CircuitError(f"{self._name} refuses {head}: {' '.join(text.split())}")
        return ROW.findall(text)

    def _answer(self, tag: str) -> tuple[str, str]:
        """Completion code and text of the answer with a tag; everything before it is skipped."""
        for _ in range(MAX_MESSAGES):
            raw = self._session.until(b";")
            text = self._session.understood(lambda raw=raw: raw.decode("ascii"))  # type: ignore[misc]
            found = ANSWER.search(text)
            if found and found[1] == tag and found[2] in {"COMPLD", "DENY"}:
                return found[2], text[found.end() :]
        raise self._session.fail(f"{MAX_MESSAGES} messages, and no answer among them")

    def _next_tag(self) -> str:
        self._tag += 1
        return str(self._tag)


def _reading(rows: Sequence[str], ports: Sequence[str]) -> Reading:
    connections: set[Connection] = set()
    states: dict[str, list[PortState]] = {}
    for row in rows:
        fields = dict(field.split("=", 1) for field in row.partition(":")[2].split(",") if "=" in field)
        one, other = fields["SRCPORT"], fields["DSTPORT"]
        connections.update([(one, other)] if fields["CONNTYPE"] == "1WAY" else [(one, other), (other, one)])
        for port in (one, other):
            states.setdefault(port, []).append(_state(fields))
    dark = [PortState(State.DARK)]
    return Reading(frozenset(connections), {port: worst(states.get(port, dark)) for port in ports})


def _state(fields: dict[str, str]) -> PortState:
    """State of a port by a row: lit in service and with light, tuning on the way there, failed out of service."""
    if fields["OSTATUS"] == "IS":
        return PortState(State.LIT if fields["OCAP"] == "OK" else State.TUNING)
    if fields["OSTATUS"] == "RDY":
        return PortState(State.TUNING)
    return PortState(State.FAILED, f"the device says {fields['OSTATUS']}, {fields['OCAP']}")
