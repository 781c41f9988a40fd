"""`wiresum bench circuits`: how exactly an emulated optical switch keeps its times, and how fast drivers are.

Frames go from one unit to another all the time, by a thread that never stops. *Order to light* is from the call that
orders a circuit to the first frame that has come through; the circuit is taken away before. Every frame has to be
counted, as passed or as lost in darkness. *Rate*: more than a fibre carries is sent, and what leaves by it is counted
where its rate is limited: a receiver in Python would be the bottleneck.
*Order*: all circuits of a switch are replaced by others at once. *Drivers*: against the emulator, without a network;
an order is read before, changed, and read back.
"""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from wiresum.bench.circuits.command import Options
from wiresum.bench.result import Ratio, Report, Result
from wiresum.circuits.control import apply
from wiresum.circuits.device import both_ways
from wiresum.circuits.drivers import connect
from wiresum.circuits.emulator.crossbar import Crossbar
from wiresum.circuits.emulator.server import HOST, SERVERS, Device, Serving
from wiresum.errors import SupportError, TestbedError
from wiresum.plan.shared import SharedNetwork
from wiresum.testbed import Testbed
from wiresum.testbed.namespaces import inside
from wiresum.testbed.optical import OpticalSwitch
from wiresum.topology.circuits import named
from wiresum.topology.generators.optical import optical

PAYLOAD_BYTES, HEADERS_BYTES = 1000, 42
"""Bytes of a frame: what is sent, and Ethernet, IPv4 and UDP before it."""
PORT = 4000
PACE_S = 100e-6
"""Seconds between two frames while light is waited for: the resolution of its time."""
PATIENCE_S = 5.0
RATE_S = 3.0
"""Seconds for which a rate is measured."""
FULL_S = 0.25
"""Seconds before, in which the queue fills."""
PORTS_OF_A_UNIT = 4


def measure(options: Options, progress: Callable[[str], None] = lambda line: None) -> Report:
    """Measures light, orders and drivers.

    Raises:
        TestbedError: there are no namespaces, or light does not come.
        SupportError: the kernel refuses the program of light.
    """
    progress("light")
    light_s, uncounted, share = _light(options)
    progress(f"orders of {options.ports} ports")
    results = [
        Result("order to light", "s", light_s, {"p99": _p99(light_s)}),
        Result(f"order of {options.ports} ports", "s", (orders := _orders(options)), {"p99": _p99(orders)}),
    ]
    lacking = []
    for protocol in SERVERS:
        progress(f"driver {protocol}")
        try:
            order_s, read_s = _driver(protocol, options)
        except SupportError as missing:
            lacking.append(f"{protocol} was not measured: {missing}")
            continue
        results += [
            Result(f"{protocol}: order, read back", "s", order_s, {"per_second": 1 / statistics.median(order_s)}),
            Result(f"{protocol}: read", "s", read_s),
        ]
    late_s = _p99(light_s) - options.dark_s - options.settle_s
    notes = [
        f"light comes {1e3 * late_s:.2f} ms after dark + settle (p99)",
        f"{uncounted} frames were neither counted as passed nor as dark",
        *lacking,
    ]
    return Report("circuits", vars(options), results, [Ratio("rate of a fibre / its limit", share)], notes=notes)


def _p99(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.99 * len(values)))]


def _light(options: Options) -> tuple[list[float], int, float]:
    """Seconds from orders to light; frames that nobody counted; what a fibre carries over its rate."""
    topology = optical(2, 1, 1, ports=1, rate_bps=options.rate_bps, dark_s=options.dark_s, settle_s=options.settle_s)
    circuit = named(topology, ",".join(link.id for link in topology.links_of("oxc")))
    network = SharedNetwork(topology, [[circuit]])
    ends = list(network.addresses(network.name(circuit)).items())
    with Testbed(topology, shared=network, loopback=False) as bed:
        switch = bed.optical_switch("oxc")
        spaces = [bed.network.namespaces[node] for node, _ in ends]
        sender, receiver = (inside(space, partial(_socket, own)) for space, (_, own) in zip(spaces, ends, strict=True))
        sender.connect((ends[1][1], PORT))
        pair = frozenset(switch.device.crossbar.sides)
        with sender, receiver:
            before = _counted(switch)
            seconds, sent = _times(switch, pair, sender, receiver, options)
            uncounted = sent - (_counted(switch) - before)
            share = _rate(bed, ends[1][0], sender) / options.rate_bps
    return seconds, uncounted, share


def _socket(address: str) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((address, PORT))
    made.settimeout(PATIENCE_S)
    return made


def _counted(switch: OpticalSwitch) -> int:
    counts = [switch.light.count(port) for port in switch.device.crossbar.sides]
    return sum(count.passed + count.dark for count in counts)


def _times(
    switch: OpticalSwitch, pair: frozenset[str], sender: socket.socket, receiver: socket.socket, options: Options
) -> tuple[list[float], int]:
    seconds = []
    with _sending(sender, PACE_S) as sent:
        for _ in range(options.runs):
            switch.device.order(switch.device.crossbar.connections, [])
            time.sleep(options.dark_s)
            _empty(receiver)
            began_s = time.monotonic()
            switch.device.order([], both_ways([pair]))
            try:
                receiver.recv(PAYLOAD_BYTES)
            except TimeoutError:
                raise TestbedError(f"no light {PATIENCE_S:g} s after its order") from None
            seconds.append(time.monotonic() - began_s)
    return seconds, sent[0]


def _empty(receiver: socket.socket) -> None:
    receiver.settimeout(0)
    try:
        while True:
            receiver.recv(PAYLOAD_BYTES)
    except BlockingIOError:
        receiver.settimeout(PATIENCE_S)


@contextmanager
def _sending(sender: socket.socket, pace_s: float) -> Iterator[list[int]]:
    """Sends frames meanwhile; the list has their number."""
    sent, ends = [0], threading.Event()

    def send() -> None:
        frame = bytes(PAYLOAD_BYTES)
        while not ends.is_set():
            sender.send(frame)
            sent[0] += 1
            if pace_s:  # A sleep of no time still lets every other process of a busy machine go first.
                time.sleep(pace_s)

    thread = threading.Thread(target=send, name="frames")
    thread.start()
    try:
        yield sent
    finally:
        ends.set()
        thread.join()


def _rate(bed: Testbed, unit: str, sender: socket.socket) -> float:
    """bit/s that light brings to a unit, headers included, where more is sent than a fibre carries."""
    fibre = next(link.id for link in bed.topology.links_of(unit) if "oxc" in (link.source, link.target))
    with _sending(sender, 0.0):
        time.sleep(FULL_S)
        began_s, before = _carried(bed, fibre)
        time.sleep(RATE_S)
        ended_s, after = _carried(bed, fibre)
    return 8 * (after - before) / (ended_s - began_s)


def _carried(bed: Testbed, fibre: str) -> tuple[float, int]:
    """When, and the bytes that light has brought by a fibre until then; asking takes some milliseconds."""
    asked_s = time.monotonic()
    count = bed.link_traffic()[fibre].backward.bytes
    return (asked_s + time.monotonic()) / 2, count


def _orders(options: Options) -> list[float]:
    """Seconds of orders that replace every circuit of a switch in namespaces."""
    units = max(2, options.ports // PORTS_OF_A_UNIT)
    topology = optical(units, 1, 1, ports=PORTS_OF_A_UNIT, rate_bps=options.rate_bps, dark_s=options.dark_s)
    with Testbed(topology, shared=SharedNetwork(topology, []), loopback=False) as bed:
        device = bed.optical_switch("oxc").device
        ports, seconds = device.crossbar.ports, []
        half = len(ports) // 2
        for run in range(options.runs):
            far = ports[half:] if run % 2 else ports[: half - 1 : -1]
            wanted = both_ways(frozenset(pair) for pair in zip(ports[:half], far, strict=False))
            now = device.crossbar.connections
            began_s = time.monotonic()
            device.order(now - wanted, wanted - now)
            seconds.append(time.monotonic() - began_s)
    return seconds


def _driver(protocol: str, options: Options) -> tuple[list[float], list[float]]:
    """Seconds of orders that replace all circuits, and of readings, by a driver against the emulator."""
    names = [str(number) for number in range(1, options.ports + 1)]
    half = options.ports // 2
    patterns = [
        {frozenset(pair) for pair in zip(names[:half], far, strict=True)}
        for far in (names[half : 2 * half], names[half : 2 * half][::-1])
    ]
    orders, reads = [], []
    with Serving(Device(Crossbar(dict.fromkeys(names), 0.0)), {protocol: (HOST, 0)}) as serving:
        driver = connect(serving.url(protocol))
        for run in range(options.runs):
            began_s = time.monotonic()
            apply(driver, patterns[run % 2], names)
            ordered_s = time.monotonic()
            driver.read()
            orders.append(ordered_s - began_s)
            reads.append(time.monotonic() - ordered_s)
        driver.close()
    return orders, reads
