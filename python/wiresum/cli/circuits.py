"""`wiresum circuits`: optical circuit switches, real ones and emulated ones."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiresum.cli.circuits_run import run
from wiresum.commandline.console import note, print_json
from wiresum.commandline.contents import Section
from wiresum.commandline.options import JsonOption, load_topology
from wiresum.commandline.quantities import parse_seconds
from wiresum.errors import CircuitError, TopologyError

if TYPE_CHECKING:
    from wiresum.circuits.control import Change
    from wiresum.circuits.device import Driver, Pair, Reading
    from wiresum.circuits.emulator.crossbar import Crossbar
    from wiresum.topology.model import Node, Topology
    from wiresum.topology.optical import Circuit

app = Section("Read, order and emulate optical circuit switches.")

DriverOption = Annotated[str, typer.Option("--driver", "-d", help="Address of the device, as polatis-rest://HOST")]
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until every circuit has light")]
SwitchOption = Annotated[
    str | None, typer.Option("--switch", help="Optical switch of the topology [default: the only one]")
]
app.command(epilog="Example: `wiresum circuits run timetable.json --topology optical.json --jobs jobs.json`")(run)
IDLE_S = 3600.0
TIMETABLE = "wiresum-timetable/1"


@app.command(epilog="Example: `wiresum circuits show --driver polatis-rest://admin:root@10.0.0.7`")
def show(driver: DriverOption, as_json: JsonOption = False) -> None:
    """Say what a device is, what it joins, and what each port does."""

    def ask(device: Driver) -> None:
        description, reading = device.describe(), device.read()
        if as_json:
            known = {"model": description.model, "sides": description.sides, "light_s": description.light_s}
            print_json({**known, **_as_json(reading)})
        else:
            print(f"{description.model}: {len(description.sides)} ports")
            print(_in_words(reading))

    _with_driver(driver, ask)


@app.command(epilog="Example: `wiresum circuits connect 1,5 2,6 --driver polatis-scpi://10.0.0.7`")
def connect(
    circuits: Annotated[list[str], typer.Argument(metavar="A,B…", help="Circuits, each as its two ports")],
    driver: DriverOption,
    wait: WaitOption = True,
    as_json: JsonOption = False,
) -> None:
    """Join pairs of ports. No port is touched that is not named: one that is joined to another is an error."""
    pairs = {_pair(text) for text in circuits}
    _order(driver, lambda _: pairs, frozenset().union(*pairs), wait=wait, as_json=as_json)


@app.command(epilog="Example: `wiresum circuits apply schedule.json --topology optical.json --interval 2`")
def apply(
    schedule: Annotated[Path, typer.Argument(metavar="SCHEDULE", help="Schedule, or timetable of `wiresum schedule`")],
    topology: Annotated[str, typer.Option("--topology", "-t", help="Topology of the schedule: a name or a file")],
    interval: Annotated[int, typer.Option("--interval", min=0, help="Interval of the schedule, counted from 0")] = 0,
    switch: SwitchOption = None,
    driver: Annotated[
        str | None, typer.Option("--driver", "-d", help="Address of the device [default: as in the topology]")
    ] = None,
    wait: WaitOption = True,
    as_json: JsonOption = False,
) -> None:
    """Bring a device to the circuits of an interval of a schedule.

    Every port of the topology's switch that has a fibre is ours: circuits that the schedule does not name are removed.
    Other ports of the device stay as they are.
    """
    from wiresum.topology.circuits import ports_of

    there = load_topology(topology)
    node = _switch(there, switch)
    address = driver or (node.oxc.driver if node.oxc else None)
    if address is None:
        raise TopologyError(f"{node.name} has no `driver`; give `--driver`")
    owned = frozenset(one.name for one in ports_of(there, node) if one.link)

    def wanted(device: Driver) -> set[Pair]:
        return _as_ports(there, node, _of_interval(there, node, schedule, interval, device))

    _order(address, wanted, owned, wait=wait, as_json=as_json)


@app.command(epilog="Example: `wiresum circuits watch --driver sonic://admin@10.0.0.9`")
def watch(
    driver: DriverOption,
    ports: Annotated[str | None, typer.Option("--ports", help="Ports, as 1,2,7 [default: all that are joined]")] = None,
    as_json: JsonOption = False,
) -> None:
    """Follow ports until each has light or has failed: a line for each change. A failed port is exit code 1."""
    from wiresum.circuits.control import watch as follow
    from wiresum.circuits.device import State

    failed: list[str] = []

    def ask(device: Driver) -> None:
        joined = {port for connection in device.read().connections for port in connection}
        for seconds, port, state in follow(device, ports.split(",") if ports else joined, tell=note):
            if as_json:
                line = {"seconds": round(seconds, 6), "port": port, "state": state.state, "reason": state.reason}
                print(json.dumps(line), flush=True)
            else:
                print(f"{seconds:8.3f} s  port {port:<6} {state.state} {state.reason}".rstrip(), flush=True)
            failed.extend([port] if state.state is State.FAILED else [])

    _with_driver(driver, ask)
    if failed:
        raise CircuitError(f"no light at port {', '.join(failed)}; check its fibre, or use another port")


@app.command(epilog="Example: `wiresum circuits emulate --serve polatis-rest --serve calient-tl1 --ports 16`")
def emulate(
    serve: Annotated[
        list[str], typer.Option("--serve", help="Protocol to speak, with a TCP port where not its own: sonic-tcp:7422")
    ],
    ports: Annotated[int, typer.Option("--ports", min=2, help="Number of ports")] = 16,
    topology: Annotated[
        str | None, typer.Option("--topology", "-t", help="Topology whose optical switch this is, instead of --ports")
    ] = None,
    switch: SwitchOption = None,
    dark: Annotated[str, typer.Option("--dark", help="Time without light after an order")] = "20ms",
    settle: Annotated[str, typer.Option("--settle", help="Time from light to traffic")] = "0s",
    host: Annotated[str, typer.Option("--host", help="Address to listen at")] = "127.0.0.1",
    talk: Annotated[bool, typer.Option("--talk", help="Print every request and answer on standard error")] = False,
) -> None:
    """Emulate an optical switch that speaks the protocols of devices, until it is interrupted."""
    from wiresum.circuits.drivers.address import PORTS
    from wiresum.circuits.emulator.server import Device, Serving

    crossbar = _crossbar(load_topology(topology), switch) if topology else _bare(ports, dark, settle)
    device = Device(crossbar, tap=_print_talk) if talk else Device(crossbar)
    wanted = {}
    for text in serve:
        protocol, _, port = text.partition(":")
        if port and not port.isdigit():
            raise typer.BadParameter(f"{text} is not PROTOCOL or PROTOCOL:PORT")
        wanted[protocol] = (host, int(port) if port else PORTS.get(protocol, 0))
    with Serving(device, wanted) as serving:
        for protocol in wanted:
            print(serving.url(protocol), flush=True)
        _sleep_until_interrupted()


def _sleep_until_interrupted() -> None:
    # A shell that starts it in the background has SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        while True:
            time.sleep(IDLE_S)
    except KeyboardInterrupt:
        pass


def _print_talk(direction: str, data: bytes) -> None:
    note(f"{direction} {data.decode('utf-8', 'replace').strip()}")


def _bare(ports: int, dark: str, settle: str) -> Crossbar:
    from wiresum.circuits.emulator.crossbar import Crossbar

    return Crossbar({str(port): None for port in range(1, ports + 1)}, parse_seconds(dark), parse_seconds(settle))


def _crossbar(topology: Topology, name: str | None) -> Crossbar:
    from wiresum.circuits.emulator.crossbar import of_topology

    return of_topology(topology, _switch(topology, name))


def _with_driver(url: str, action: Callable[[Driver], None]) -> None:
    from wiresum.circuits.drivers import connect as driver_of

    device = driver_of(url)
    try:
        action(device)
    finally:
        device.close()


def _order(
    url: str, wanted: Callable[[Driver], set[Pair]], owned: frozenset[str], *, wait: bool, as_json: bool
) -> None:
    from wiresum.circuits.control import apply as bring
    from wiresum.circuits.control import wait_for_light

    def ask(device: Driver) -> None:
        began_s = time.monotonic()
        pairs = wanted(device)
        change = bring(device, pairs, owned)
        if wait and pairs:
            wait_for_light(device, pairs)
        _tell(change, time.monotonic() - began_s, as_json=as_json)

    _with_driver(url, ask)


def _tell(change: Change, seconds: float, *, as_json: bool) -> None:
    from wiresum.circuits.device import natural, shown

    added = sorted((sorted(pair, key=natural) for pair in change.added), key=lambda pair: natural(pair[0]))
    if as_json:
        removed = sorted(map(list, change.removed))
        print_json({"added": added, "removed": removed, "attempts": change.attempts, "seconds": seconds})
    elif not change.attempts:
        note("nothing to change")
    else:
        for pair in added:
            print(f"joined {shown(pair)}")
        for one, other in sorted(change.removed):
            print(f"removed {one} → {other}")
        note(f"{seconds * 1e3:.1f} ms, {change.attempts} order{'s' if change.attempts > 1 else ''}")


def _pair(text: str) -> Pair:
    ports = [port.strip() for port in text.split(",")]
    if len(ports) != 2 or not all(ports):  # noqa: PLR2004 - two ends
        raise typer.BadParameter(f"{text} is not a circuit; give its two ports, as 1,5")
    return frozenset(ports)


def _switch(topology: Topology, name: str | None) -> Node:
    from wiresum.topology.circuits import optical_switches

    found = [node for node in optical_switches(topology) if name in (None, node.name)]
    if len(found) != 1:
        names = ", ".join(node.name for node in optical_switches(topology)) or "none"
        raise TopologyError(f"topology {topology.name} has the optical switches: {names}; name one with `--switch`")
    return found[0]


def _of_interval(topology: Topology, switch: Node, file: Path, index: int, device: Driver) -> list[Circuit]:
    """Circuits of a schedule; or of a timetable, which says how many there are between units."""
    from wiresum.document import read_json
    from wiresum.plan.schedule import Schedule

    document = read_json(file, "schedule", TopologyError)
    intervals = document.get("intervals") if isinstance(document, dict) else None
    if not isinstance(intervals, list):
        Schedule.parse(json.dumps(document), str(file))  # says what else it is
        raise TopologyError(f"{file} has no list of intervals; give a schedule or a timetable")
    count = len(intervals)
    if index >= count:
        raise TopologyError(f"{file} has {count} intervals, and no interval {index}; they count from 0")
    if document.get("format") == TIMETABLE:
        return _between(topology, switch, document["intervals"][index].get("circuits", []), device)
    return Schedule.parse(json.dumps(document), str(file)).intervals[index].circuits


def _between(topology: Topology, switch: Node, wanted: list[Any], device: Driver) -> list[Circuit]:
    """Ports for numbers of circuits between units; what is lit at the device stays, where it is wanted."""
    from wiresum.topology.circuits import between, fibres
    from wiresum.topology.optical import Circuit

    link = {fibre.port.name: fibre.link.id for fibre in fibres(topology) if fibre.switch == switch.name}
    joined = [[link[port] for port in pair] for pair in device.read().pairs if pair <= set(link)]
    lit = [Circuit(switch=switch.name, links=ends) for ends in joined]
    try:
        pairs = {frozenset(one["between"]): int(one["circuits"]) for one in wanted}
    except (LookupError, TypeError, ValueError) as bad:
        raise TopologyError(
            f"circuits of the timetable cannot be read ({bad}); make it with `wiresum schedule`"
        ) from None
    return between(topology, pairs, lit)


def _as_ports(topology: Topology, switch: Node, circuits: list[Circuit]) -> set[Pair]:
    from wiresum.topology.circuits import fibres

    topology.with_circuits(circuits)
    port = {fibre.link.id: fibre.port.name for fibre in fibres(topology)}
    return {frozenset(port[link] for link in one.links) for one in circuits if one.switch == switch.name}


def _as_json(reading: Reading) -> dict[str, Any]:
    return {
        "circuits": sorted(sorted(pair) for pair in reading.pairs),
        "connections": sorted(map(list, reading.connections)),
        "ports": {port: {"state": one.state, "reason": one.reason} for port, one in reading.states.items()},
    }


def _in_words(reading: Reading) -> str:
    from wiresum.circuits.device import natural, shown

    lines = []
    for pair in sorted(reading.pairs, key=lambda pair: sorted(map(natural, pair))):
        states = {f"{reading.states[port].state} {reading.states[port].reason}".strip() for port in pair}
        lines.append(f"{shown(pair)}: {', '.join(sorted(states))}")
    halves = [one for one in sorted(reading.connections) if one[::-1] not in reading.connections]
    lines += [f"{one} → {other}: one direction only" for one, other in halves]
    return "\n".join(lines) or "nothing is joined"
