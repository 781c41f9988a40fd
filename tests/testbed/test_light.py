"""An emulated optical switch in a namespace: frames go where circuits lead, once there is light."""

import socket
import subprocess
import time
from contextlib import contextmanager

import pytest
from tests.circuits.switches import pair

from wiresum.circuits.control import apply, wait_for_light
from wiresum.circuits.device import both_ways
from wiresum.circuits.drivers import connect
from wiresum.circuits.emulator.crossbar import Crossbar
from wiresum.circuits.emulator.server import HOST, Device, Serving
from wiresum.testbed import namespaces
from wiresum.testbed.layout import NAMESPACE_PREFIX, Port
from wiresum.testbed.light import Light, PortCount
from wiresum.testbed.shaping import BURST_BYTES, Shaper

HOSTS = 4
UDP_PORT = 4000
SOON_S = 20.0
"""A busy machine does everything in this time."""
DARK_S = 0.3
GAP_S = 0.002


def run(*lines, space=None):
    where = ["-n", space] if space else []
    subprocess.run(["ip", *where, "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)


def quiet(space):
    """IPv6 announces itself, and would be counted."""
    switch = "net.ipv6.conf.all.disable_ipv6=1"
    subprocess.run(["ip", "netns", "exec", space, "sysctl", "-qw", switch], check=True)


@contextmanager
def hosts_at_a_switch(name, rate_bps=None):
    """Hosts 1 to 4, each with a fibre to the switch; every host knows the others' hardware addresses."""
    spaces = {host: f"{NAMESPACE_PREFIX}{name}-h{host}" for host in range(1, HOSTS + 1)}
    switch = f"{NAMESPACE_PREFIX}{name}-oxc"
    try:
        run(*(f"netns add {space}" for space in (switch, *spaces.values())))
        pairs = [f"p{host} netns {switch} type veth peer name e0 netns {space}" for host, space in spaces.items()]
        run(*(f"link add name {one}" for one in pairs))
        for host, space in spaces.items():
            quiet(space)
            others = [other for other in spaces if other != host]
            peers = [f"neigh add 10.5.0.{other} lladdr 02:00:00:00:00:0{other} dev e0" for other in others]
            near = ["link set dev lo up", f"link set dev e0 address 02:00:00:00:00:0{host} up"]
            run(*near, f"addr add 10.5.0.{host}/24 dev e0", *peers, space=space)
        quiet(switch)
        run(*(f"link set dev p{host} up" for host in spaces), space=switch)
        if rate_bps:
            lines = [line for host in spaces for line in Shaper(f"p{host}", rate_bps).commands()]
            subprocess.run(["tc", "-n", switch, "-batch", "-"], input="\n".join(lines), text=True, check=True)
        yield spaces, {str(host): Port("oxc", switch, f"p{host}", host) for host in spaces}
    finally:
        namespaces.remove([switch, *spaces.values()])


class Ends:
    """A socket at each host."""

    def __init__(self, spaces):
        self.sockets = {host: namespaces.inside(space, self._socket) for host, space in spaces.items()}

    @staticmethod
    def _socket():
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind(("0.0.0.0", UDP_PORT))
        made.setblocking(False)
        return made

    def send(self, source, target, payload):
        self.sockets[source].sendto(payload, (f"10.5.0.{target}", UDP_PORT))

    def received(self, host, count=0):
        """What has come so far, and until there are so many: the kernel may deliver a frame after it was sent."""
        found, end_s = [], time.monotonic() + SOON_S
        while True:
            try:
                found.append(self.sockets[host].recv(2048))
            except BlockingIOError:
                if len(found) >= count or time.monotonic() > end_s:
                    return found
                time.sleep(GAP_S)

    def close(self):
        for one in self.sockets.values():
            one.close()


@contextmanager
def switched(name, dark_s=0.0, settle_s=0.0, rate_bps=None, **more):
    """Hosts, their sockets, a crossbar and its light."""
    with hosts_at_a_switch(name, rate_bps) as (spaces, ports):
        crossbar = Crossbar(dict.fromkeys(ports), dark_s, settle_s)
        light = Light(ports, crossbar, **more)
        ends = Ends(spaces)
        try:
            yield ends, crossbar, light
        finally:
            ends.close()
            light.close()


def counted(light, port, frames):
    """Count of a port once it has seen so many frames."""
    end_s = time.monotonic() + SOON_S
    while True:
        count = light.count(str(port))
        if count.passed + count.dark >= frames or time.monotonic() > end_s:
            return count
        time.sleep(GAP_S)


@pytest.fixture
def bpf_on_ports(namespaces):
    from tests import capabilities

    capabilities.require("bpf")


def test_frames_go_where_circuits_lead_and_every_one_is_counted(bpf_on_ports, name):
    with switched(name) as (ends, crossbar, light):
        ends.send(1, 2, b"too early")
        crossbar.order(time.monotonic(), [], both_ways({pair(1, 2), pair(3, 4)}))
        for number in range(50):
            ends.send(1, 2, b"%d" % number)
            ends.send(2, 1, b"back %d" % number)
        ends.send(1, 3, b"to whom the circuit does not lead")
        ends.send(3, 4, b"beside it")
        counts = [counted(light, port, frames) for port, frames in {1: 52, 2: 50, 3: 1, 4: 0}.items()]
        assert counts == [PortCount(51, 1), PortCount(50, 0), PortCount(1, 0), PortCount(0, 0)]
        assert ends.received(2, 50) == [b"%d" % number for number in range(50)]
        assert ends.received(1, 50) == [b"back %d" % number for number in range(50)]
        assert ends.received(4, 1) == [b"beside it"]
        assert ends.received(3) == []
        crossbar.order(time.monotonic(), [("1", "2")], [])
        ends.send(1, 2, b"into darkness")
        ends.send(2, 1, b"half a circuit is left")
        assert counted(light, 1, 53) == PortCount(51, 2)
        assert ends.received(1, 1) == [b"half a circuit is left"]
        assert ends.received(2) == []


def test_darkness_ends_by_itself_and_not_before(bpf_on_ports, name):
    with switched(name, DARK_S, 0.1) as (ends, crossbar, light):
        crossbar.order(0.0, [], both_ways({pair(1, 2)}))
        ends.send(1, 2, b"lit")
        assert ends.received(2, 1) == [b"lit"]
        ordered_s = time.monotonic()
        crossbar.order(ordered_s, both_ways({pair(1, 2)}), both_ways({pair(1, 3)}))
        frames, arrived = 0, []
        while not arrived and time.monotonic() < ordered_s + SOON_S:
            ends.send(1, 3, b"into darkness, until there is light")
            frames += 1
            time.sleep(GAP_S)
            arrived = ends.received(3)
        assert arrived, "no light"
        assert time.monotonic() >= ordered_s + DARK_S + 0.1
        count = counted(light, 1, 1 + frames)
        arrived += ends.received(3, count.passed - 1 - len(arrived))
        assert count == PortCount(1 + len(arrived), frames - len(arrived))
        assert ends.received(2) == []


def test_what_fails_lies_or_sticks_is_dark_or_stays(bpf_on_ports, name):
    with switched(name) as (ends, crossbar, light):
        crossbar.faults.lying.add("1")
        crossbar.order(time.monotonic(), [], both_ways({pair(1, 2), pair(3, 4)}))
        crossbar.faults.stuck.add("3")
        crossbar.order(time.monotonic(), both_ways({pair(3, 4)}), [])
        ends.send(1, 2, b"lost")
        ends.send(3, 4, b"stuck")
        assert counted(light, 1, 1) == PortCount(0, 1)
        assert (ends.received(2), ends.received(4, 1)) == ([], [b"stuck"])


def test_the_queue_behind_still_limits_the_circuit(bpf_on_ports, name):
    """Frames are sent much faster than the rate, and no more of them arrive than rate and bucket allow."""
    rate_bps, size, seconds = 2e6, 1400, 1.0
    with switched(name, rate_bps=rate_bps) as (ends, crossbar, light):
        crossbar.order(time.monotonic(), [], both_ways({pair(1, 2)}))
        began_s, frames, arrived, held_back = time.monotonic(), 0, 0, 0
        while time.monotonic() < began_s + (seconds if held_back else SOON_S):
            try:
                ends.send(1, 2, bytes(size))
                frames += 1
            except BlockingIOError:  # The queue of the switch is full of what the host has sent.
                held_back += 1
                time.sleep(GAP_S / 4)
            arrived += len(ends.received(2))
        elapsed_s = time.monotonic() - began_s
        assert counted(light, 1, frames) == PortCount(frames, 0)
    assert held_back, "too little was sent to tell"
    assert arrived * (size + 42) * 8 <= rate_bps * elapsed_s + 8 * BURST_BYTES + 8 * size
    assert arrived * (size + 42) * 8 >= 0.1 * rate_bps * elapsed_s


def test_on_request_darkness_takes_the_carrier_away(bpf_on_ports, name):
    with switched(name, DARK_S, drops_carrier=True) as (ends, crossbar, _):

        def shown(host):
            space = f"{NAMESPACE_PREFIX}{name}-h{host}"
            done = subprocess.run(["ip", "-n", space, "link", "show", "e0"], capture_output=True, text=True, check=True)
            return "NO-CARRIER" not in done.stdout

        assert not shown(1)
        ordered_s = time.monotonic()
        crossbar.order(ordered_s, [], both_ways({pair(1, 2)}))
        assert not shown(1) or time.monotonic() >= ordered_s + DARK_S
        end_s = time.monotonic() + SOON_S
        while not (shown(1) and shown(2)) and time.monotonic() < end_s:
            time.sleep(GAP_S)
        assert shown(1)
        assert shown(2)
        assert not shown(3)
        ends.send(1, 2, b"after the carrier")
        assert ends.received(2, 1) == [b"after the carrier"]


@pytest.mark.parametrize(
    "protocol", ["polatis-rest", "polatis-scpi", "calient-tl1", "sonic-tcp", "sonic-gnmi", "emulated"]
)
def test_a_devices_driver_switches_the_testbeds_light(bpf_on_ports, name, protocol):
    with switched(name, 0.02) as (ends, crossbar, light), Serving(Device(crossbar), {protocol: (HOST, 0)}) as serving:
        driver = connect(serving.url(protocol))
        owned = [str(host) for host in range(1, HOSTS + 1)]

        def probe(ports):
            one, other = sorted(int(port) for port in ports)
            before = light.count(str(one))
            ends.send(one, other, b"probe")
            after = counted(light, one, before.passed + before.dark + 1)
            return ends.received(other, after.passed - before.passed) == [b"probe"]

        for wanted in ({pair(1, 2), pair(3, 4)}, {pair(1, 3), pair(2, 4)}, {pair(1, 4)}):
            apply(driver, wanted, owned)
            wait_for_light(driver, wanted, probe)
        driver.close()
        assert sum(light.count(port).passed for port in owned) == 5
