"""Emulated switches for tests: any protocol, a clock that stands still until it is moved, random circuits."""

from contextlib import contextmanager

from wiresum.circuits.drivers import connect
from wiresum.circuits.emulator.crossbar import Crossbar
from wiresum.circuits.emulator.server import HOST, SERVERS, Device, Serving

PROTOCOLS = list(SERVERS)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


def crossbar(ports=8, dark_s=0.02, settle_s=0.0, **more):
    return Crossbar({str(port): None for port in range(1, ports + 1)}, dark_s, settle_s, **more)


@contextmanager
def served(protocol, device, **options):
    """A driver of the device, with options of its address, and the servers behind it."""
    with Serving(device, {protocol: (HOST, 0)}) as serving:
        driver = connect(serving.url(protocol, **options))
        try:
            yield driver
        finally:
            driver.close()


def device(**more):
    return Device(crossbar(**more))


def pair(one, other):
    return frozenset({str(one), str(other)})


def random_pairs(random, ports):
    """Circuits of some of the ports."""
    shuffled = random.sample(sorted(ports), len(ports))
    count = random.randrange(len(ports) // 2 + 1)
    return {frozenset(shuffled[2 * n : 2 * n + 2]) for n in range(count)}
