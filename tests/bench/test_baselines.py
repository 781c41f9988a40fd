"""Parameter servers: exact bounds by hand, and real sums through real sockets."""

from __future__ import annotations

import socket
import threading

import numpy as np
import pytest

from wiresum.bench.baselines import BASELINES
from wiresum.bench.baselines.push_pull import CHUNK_BYTES, PushPull
from wiresum.bench.baselines.server import Server
from wiresum.errors import TopologyError
from wiresum.testbed import Testbed
from wiresum.topology.generators.servers import servers
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Topology

ELEMENTS = 1_000_000
RATE_BPS = 400e6
WHOLE_S = 8 * 4 * ELEMENTS / RATE_BPS
"""The gradient over one link."""


@pytest.mark.parametrize(
    ("name", "topology", "times_the_gradient"),
    [
        ("ps", servers(workers=4, servers=1, rate_bps=RATE_BPS), 4),
        ("ps", servers(workers=4, servers=1, rate_bps=RATE_BPS, server_rate_bps=8 * RATE_BPS), 1),
        ("ps", star(workers=4, rate_bps=RATE_BPS), 1),
        ("sharded_ps", servers(workers=4, servers=2, rate_bps=RATE_BPS), 2),
        ("sharded_ps", servers(workers=4, servers=8, rate_bps=RATE_BPS), 1),
        ("sharded_ps", star(workers=4, rate_bps=RATE_BPS), 2 * 3 / 4),
        ("sharded_ps", servers(workers=4, servers=4, rate_bps=RATE_BPS, colocated=True), 2 * 3 / 4),
    ],
)
def test_the_busiest_link_bounds_a_run(name, topology, times_the_gradient):
    assert BASELINES[name].bound_s(topology, ELEMENTS) == pytest.approx(times_the_gradient * WHOLE_S)


def test_servers_have_their_places():
    assert BASELINES["ps"].place(xagg()) == ["PS"]
    assert BASELINES["sharded_ps"].place(xagg()) == ["S1", "S2", "PS"]
    assert BASELINES["sharded_ps"].place(star(workers=2)) == ["w0", "w1"]
    only_workers = Topology(name="pair", nodes=star(workers=1).nodes[:1], links=[])
    with pytest.raises(TopologyError, match="no node for a parameter server"):
        BASELINES["ps"].place(only_workers)


@pytest.mark.parametrize("server_count", [1, 3])
def test_every_worker_gets_the_sums_in_any_size(server_count):
    workers, chunk = 3, CHUNK_BYTES // 4
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(server_count)]
    running = [threading.Thread(target=Server(listener, workers).serve, daemon=True) for listener in listeners]
    for thread in running:
        thread.start()
    addresses = [f"127.0.0.1:{listener.getsockname()[1]}" for listener in listeners]
    sizes = [1, 2, chunk - 1, chunk, chunk + 1, 5 * chunk + 7, 5 * chunk + 7, 10]
    wrong: list[str] = []

    def work(rank: int) -> None:
        client = PushPull(addresses)
        for number, size in enumerate(sizes):
            values = np.arange(size, dtype=np.float32) % 1000 + rank
            client.all_reduce(values)
            if not np.array_equal(values, 3 * (np.arange(size) % 1000) + 3):
                wrong.append(f"rank {rank}, round {number}, {size} elements")
        client.close()

    ranks = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(workers)]
    for thread in ranks:
        thread.start()
    for thread in [*ranks, *running]:
        thread.join(timeout=60)
        assert not thread.is_alive(), "a round does not end"
    for listener in listeners:
        listener.close()
    assert not wrong


def test_a_server_that_goes_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = PushPull([f"127.0.0.1:{listener.getsockname()[1]}"])
        listener.accept()[0].close()
        with pytest.raises(ConnectionError):
            client.all_reduce(np.ones(100_000, dtype=np.float32))
        client.close()


@pytest.mark.parametrize("name", BASELINES)
def test_a_tiny_run_on_a_testbed(name):
    delay_s = 0.2
    with Testbed(servers(workers=2, servers=2, rate_bps=None), name=f"bench-{name.replace('_', '-')}") as bed:
        (run,) = BASELINES[name].run(bed, elements=50_000, runs=1, delays_s=[0.0, delay_s])
    # Both follow from the late worker's start, however fast the machine is.
    assert delay_s <= run.summed_seconds <= run.seconds
    assert run.largest_deviation < 1e-5
