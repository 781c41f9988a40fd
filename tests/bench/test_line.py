"""`wiresum bench line`: accounts of processor time, bare streams, and a small run beside Gloo."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import typer

from wiresum.bench.command import parse_counts
from wiresum.bench.line import measure, processor, profile, streams
from wiresum.bench.line.cores import engine_threads, serving_threads, slower_cores
from wiresum.bench.line.processor import Spent
from wiresum.bench.result import Ratio
from wiresum.predict.hosts import HostProfile

SAMPLE = {"elapsed": 0.5, "process": 0.4, "engine": 0.1, "machine": 1.0, "softirq": 0.2}


@pytest.mark.parametrize("given", ["", "1", "2,x", "2,,4", "-2"])
def test_groups_have_members(given):
    with pytest.raises(typer.BadParameter, match="not a list of numbers from 2 up"):
        parse_counts(given, "--workers", least=2)


def test_processor_time_counts_what_this_process_does():
    before = processor.spent()
    total = 0
    while processor.spent().since(before).process < 0.05:
        total += sum(range(1000))
    spent = processor.spent().since(before)
    assert spent.process >= 0.05
    assert spent.machine >= 0
    assert total > 0


def test_what_was_spent_is_a_difference():
    assert Spent(3, 2, 5, 4).since(Spent(1, 1, 2, 2)) == Spent(2, 1, 3, 2)


def test_costs_are_per_rank_and_gigabyte():
    parts = measure.per_gb(size=100_000_000, workers=4, samples=[SAMPLE, SAMPLE, {**SAMPLE, "process": 9.0}])
    assert parts["process"] == pytest.approx(1.0)
    assert parts["machine"] == pytest.approx(2.5)


def test_a_rate_is_that_of_one_workers_gradient():
    result = measure.to_result("case", 125_000_000, 2, [SAMPLE])
    assert result.extra["gradient_gbps"] == pytest.approx(2.0)


def test_ratios_say_which_is_over_which():
    samples = {"wiresum": [SAMPLE], "gloo": [{**SAMPLE, "elapsed": 1.0, "process": 0.2}]}
    assert [ratio.value for ratio in measure.to_ratios("case", samples)] == pytest.approx([2.0, 2.0])


def test_threads_are_set_beside_one():
    medians = {("case", 1_000_000, 1): 3.0, ("case", 1_000_000, 2): 2.0, ("other", 1_000_000, 2): 1.0}
    assert measure.of_threads(medians) == [Ratio("case, 1 MB: one thread / 2", 1.5)]


@pytest.mark.needs("slower-cores")
@pytest.mark.parametrize("share", [0.05, 0.2])
def test_a_slower_core_is_what_its_share_says(share):
    """A share of a processor for a thread that computes, and all of one before and afterwards."""
    ended = threading.Event()

    def compute():
        while not ended.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute, name="any")
    thread.start()
    Path(f"/proc/self/task/{thread.native_id}/comm").write_text("wiresum-0")
    try:
        with slower_cores(share):
            before, start = time.process_time(), time.monotonic()
            time.sleep(1.0)
            spent = (time.process_time() - before) / (time.monotonic() - start)
        assert engine_threads() == [thread.native_id]
    finally:
        ended.set()
        thread.join()
    assert spent < 1.5 * share
    assert not [line for line in Path("/proc/mounts").read_text().splitlines() if "wiresum-cores" in line]


@pytest.mark.parametrize("size", [1, 2978, 61_000, streams.BLOCK_BYTES, 5_000_001])
def test_all_parts_make_the_whole(size):
    assert sum(streams.blocks(size)) == size
    assert max(streams.blocks(size)) <= streams.BLOCK_BYTES


@pytest.mark.parametrize("name", streams.NAMES)
@pytest.mark.parametrize("size", [1, 3_000_000])
def test_bare_streams_bring_every_byte(name, size):
    listener = streams.Listener("127.0.0.1")
    ends: dict[str, streams.Stream] = {}
    accepting = threading.Thread(target=lambda: ends.update(listener.accept(1400)))
    accepting.start()
    sender = streams.connect(listener.place, 1400)
    accepting.join(streams.PATIENCE_S)
    receiving = threading.Thread(target=lambda: ends[name].receive(size))
    receiving.start()
    sender[name].send(size)  # returns when the receiver has said that it has all
    receiving.join(streams.PATIENCE_S)
    assert not receiving.is_alive()


def test_what_a_queue_drops_is_sent_again():
    listener, size = streams.Listener("127.0.0.1"), 100_000
    with socket.create_connection((listener.place.address, listener.place.tcp_port)) as control:
        receiver = listener.accept(1400)["bare UDP"]
        receiving = threading.Thread(target=receiver.receive, args=(size,))
        receiving.start()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.connect((listener.place.address, listener.place.udp_port))
            datagrams.send(bytes(40_000))
            control.settimeout(streams.PATIENCE_S)
            assert int.from_bytes(control.recv(4)) == 60_000
            datagrams.send(bytes(60_000))
            assert control.recv(4) == streams.DONE
    receiving.join(streams.PATIENCE_S)
    assert not receiving.is_alive()


@pytest.mark.needs("namespaces")
def test_a_small_run_has_all_four_ways_and_a_worker_alone():
    command = [sys.executable, "-m", "wiresum", "bench", "line", "--json"]
    options = ["--workers", "2", "--sizes", "100KB", "--engines", "udp", "--transports", "udp", "--runs", "1"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    *live, alone = report["results"]
    assert [result["name"].rpartition(": ")[2] for result in live] == ["wiresum", "gloo", *streams.NAMES]
    assert all(result["cpu_s_per_gb"]["process"] > 0 for result in live)
    assert alone["name"] == "without a network, 2 workers, 0.1 MB: a worker's own part"
    assert 0 < alone["cpu_s_per_gb"]["worker"] < live[0]["cpu_s_per_gb"]["process"]
    assert report["results"][0]["cpu_s_per_gb"]["engine"] > 0


@pytest.mark.needs("namespaces")
def test_servers_have_the_threads_that_are_asked_for():
    command = [sys.executable, "-m", "wiresum", "bench", "line", "--json"]
    options = ["--workers", "2", "--sizes", "1MB", "--engines", "udp", "--transports", "udp", "--runs", "1"]
    threads = ["--threads", "2", "--node-threads", "1,2"]
    done = subprocess.run([*command, *options, *threads], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    took = [note for note in report["notes"] if "the server with" in note]
    assert ["1 thread took" in took[0], "2 threads took" in took[1]] == [True, True]
    assert not [note for note in took if "for 0 datagrams" in note]
    assert any(ratio["name"].endswith("one thread at the server / 2") for ratio in report["ratios"])


def test_a_server_without_several_threads_moves_packets_by_its_only_one():
    assert serving_threads(os.getpid()) == [os.getpid()]


def test_a_profile_parts_the_machine_into_ranks_and_the_rest():
    assert profile.parts({"engine": 0.5, "process": 0.75, "machine": 2.0}) == {
        "thread": 0.5, "worker": 0.75, "node": 1.25,
    }  # fmt: skip
    assert profile.parts({"engine": 0.5, "process": 0.75, "machine": 0.7})["node"] == 0.0


@pytest.mark.needs("namespaces")
def test_a_profile_is_what_predict_reads(tmp_path):
    file = tmp_path / "hosts.json"
    command = [sys.executable, "-m", "wiresum", "bench", "line", "--json", "--profile", str(file)]
    options = ["--workers", "2", "--sizes", "1MB", "--engines", "udp", "--transports", "udp", "--runs", "1"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found = HostProfile.read(file)
    assert (found.engine, found.transport) == ("udp", "udp")
    assert found.thread.packet_s + found.thread.byte_s > 0
