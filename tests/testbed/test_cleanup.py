"""Whatever ends a testbed, nothing of it stays, and nothing of anyone else's goes."""

import os
import signal
import subprocess
import sys

import pytest
from tests.testbed.traces import WAIT_S, existing, gone

from wiresum.errors import TestbedError
from wiresum.testbed import Testbed, processes, records
from wiresum.testbed.support import why_no_shaping, why_no_xdp
from wiresum.topology.generators.star import star

pytestmark = pytest.mark.usefixtures("namespaces")

HOLD = """
import sys, time
from wiresum.topology.generators.star import star
from wiresum.testbed import Testbed
with Testbed(star(2), name=sys.argv[1]) as bed:
    child = bed.spawn("w0", ["sh", "-c", sys.argv[2]])
    time.sleep(600)
"""
ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
GRANDCHILD = "setsid sh -c 'echo $$; exec sleep 600' & wait"
"""In a session of its own, so that signals to its parent's do not reach it."""
STUBBORN = "setsid sh -c 'trap : TERM; echo $$; while :; do sleep 1; done' & wait"
"""The same, and it ignores polite requests."""


def hold(name: str, command: str = GRANDCHILD) -> tuple[subprocess.Popen[str], int]:
    """A process that holds a testbed, and the number of the grandchild in it that the command started."""

    # Who runs the tests in the background, or by nohup, may have them ignore signals, which children inherit.
    def heed() -> None:
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)

    line = [sys.executable, "-c", HOLD, name, command]
    holder = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, preexec_fn=heed)  # noqa: PLW1509
    return holder, int(holder.stdout.readline())


@pytest.fixture
def killed(name):
    """A testbed whose owner was killed, and the number of a process that still runs in it."""
    holder, pid = hold(name)
    with holder:
        holder.kill()
    assert not gone(pid)
    assert existing(name) != []
    return pid


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_cleans_up_at_once(name, number):
    holder, pid = hold(name)
    with holder:
        try:
            holder.send_signal(number)
            assert holder.wait(WAIT_S) != 0
        finally:
            holder.kill()
    assert gone(pid)
    assert existing(name) == []


def test_a_process_that_ignores_polite_requests_is_ended_by_force(name, monkeypatch):
    monkeypatch.setattr(processes, "GRACE_S", 0.2)
    holder, pid = hold(name, STUBBORN)
    with holder:
        holder.kill()
    records.remove_leftovers()
    assert gone(pid)
    assert existing(name) == []


def test_an_exception_inside_cleans_up(name):
    sleepers = []

    def fail() -> None:
        with Testbed(star(1), name=name) as bed:
            sleepers.append(bed.spawn("w0", ["sleep", "600"]))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert gone(sleepers[0].pid)
    assert existing(name) == []


def test_the_next_testbed_removes_what_a_killed_one_left(name, killed):
    with Testbed(star(1), name=f"{name}b"):
        assert gone(killed)
        assert existing(name) == []


def test_the_name_of_a_killed_testbed_is_free(name, killed):
    with Testbed(star(1), name=name):
        assert gone(killed)


def test_a_stranger_with_a_recorded_number_survives(name, killed):
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        record = records.Record.read(records.root() / name)
        record.processes.append(records.ProcessId(stranger.pid, start_ticks=1))
        record.write(records.root() / name)
        records.remove_leftovers()
        assert stranger.poll() is None
        assert gone(killed)
        assert existing(name) == []
    finally:
        stranger.kill()
        stranger.wait()


def test_a_testbed_that_is_kept_stays_until_it_is_taken_down(name):
    bed = Testbed(star(1), name=name)
    bed.up()
    bed.keep()
    records.remove_leftovers()
    assert existing(name) != []
    with pytest.raises(TestbedError, match="testbed down"):
        Testbed(star(1), name=name).up()
    records.take_down(name)
    assert existing(name) == []


def test_a_testbed_that_runs_keeps_its_name(name):
    with Testbed(star(1), name=name):
        with pytest.raises(TestbedError, match=f"of process {os.getpid()} is running"):
            Testbed(star(1), name=name).up()
        with pytest.raises(TestbedError, match="is in use"):
            records.take_down(name)
        records.remove_leftovers()
        assert existing(name) != []


def test_a_namespace_of_someone_else_is_not_touched(name):
    foreign = f"ws-{name}-w0"
    subprocess.run(["ip", "netns", "add", foreign], check=True)
    try:
        with pytest.raises(TestbedError, match="not a testbed's"):
            Testbed(star(1), name=name).up()
        assert foreign in existing(name)
    finally:
        subprocess.run(["ip", "netns", "del", foreign], check=True)


def test_a_record_cut_short_does_not_stop_the_next_testbed(name):
    folder = records.root() / name
    folder.mkdir(parents=True)
    (folder / records.RECORD_FILE).write_text('{"name": ')
    records.remove_leftovers()
    assert existing(name) == []


def test_a_testbed_that_is_not_there_cannot_be_taken_down(name):
    with pytest.raises(TestbedError, match="there is no testbed"):
        records.take_down(name)


@pytest.mark.parametrize("bad", ["Lab 1", "", "../etc", "a" * 25])
def test_a_name_that_cannot_be_one_is_refused(bad):
    with pytest.raises(TestbedError, match="cannot name a testbed"):
        records.claim(bad)


def test_probes_of_this_machine_leave_nothing():
    why_no_shaping()
    why_no_xdp()
    assert existing(f"probe-{os.getpid()}") == []
