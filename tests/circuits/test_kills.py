"""An emulated device as a process of its own that is killed at any moment: orders are done, or fail by its name."""

import random
import socket
import subprocess
import sys
import threading
import time

import pytest

from wiresum.circuits.control import apply
from wiresum.circuits.drivers import connect
from wiresum.errors import CircuitError

PORTS = 8
PROTOCOLS = ("emulated", "calient-tl1", "polatis-rest", "sonic-gnmi")
OPTIONS = {"sonic-gnmi": "?insecure=yes"}
PATIENCE_S = 120.0
"""Seconds for a process to start: a busy machine takes many."""


class Emulator:
    """`wiresum circuits emulate`, at the same port whenever it is started."""

    def __init__(self, protocol):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.protocol, self.process = protocol, None
        self.start()

    def start(self):
        served = f"{self.protocol}:{self.port}"
        line = [sys.executable, "-m", "wiresum", "circuits", "emulate", "--serve", served, "--ports", str(PORTS)]
        self.process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                assert self.process.poll() is None, "the emulator has ended"
                assert time.monotonic() < end_s
                time.sleep(0.05)

    def kill(self):
        self.process.kill()
        self.process.wait()


def any_circuits(drawn):
    ports = [str(port) for port in range(1, PORTS + 1)]
    drawn.shuffle(ports)
    pairs = [frozenset(pair) for pair in zip(ports[::2], ports[1::2], strict=True)]
    return pairs[: drawn.randrange(len(pairs) + 1)]


def order(device, drawn):
    wanted = any_circuits(drawn)
    apply(device, wanted, [str(port) for port in range(1, PORTS + 1)])
    assert device.read().pairs == frozenset(wanted)


def order_for_ever(device, drawn):
    while True:
        order(device, drawn)


def killed(protocol, seed, kills):
    """Orders go on while the emulator is killed: each is done, or fails by name; the first after a restart is done."""
    drawn = random.Random(seed)
    emulator = Emulator(protocol)
    device = connect(f"{protocol}://127.0.0.1:{emulator.port}{OPTIONS.get(protocol, '')}")
    try:
        for _ in range(kills):
            killer = threading.Timer(drawn.uniform(0.0, 0.3), emulator.kill)
            killer.start()
            with pytest.raises(CircuitError, match=f"{protocol}://127[.]0[.]0[.]1"):
                order_for_ever(device, drawn)
            killer.join()
            emulator.start()
            order(device, drawn)
    finally:
        device.close()
        emulator.kill()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_emulator_that_is_killed_is_an_error_by_name_and_has_its_circuits_with_the_next_order(protocol):
    killed(protocol, seed=1, kills=2)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 20))
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_emulators_that_are_killed_at_random_moments(protocol, seed):
    killed(protocol, seed, kills=5)
