"""Lines of gates: a driver believes its ranks alone, and a rank its driver; what is foreign or old is refused."""

import socket
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.turns.test_gates import PATIENCE_S, SECRET, Rank, connected, hears_nothing

from wiresum._native import gate_key
from wiresum.errors import JoinError
from wiresum.gates.lines import ForeignLineError, accepted, greeted
from wiresum.gates.listener import Gates
from wiresum.gates.rank import Caller, EngineInTurns

OTHER = "0d" * 32


@pytest.fixture
def gates(tmp_path):
    with Gates(str(tmp_path / "turns.sock"), {1: SECRET, 2: OTHER}) as made:
        yield made


def refusals(gates, count):
    """Waits until so many lines were refused."""
    end_s = time.monotonic() + PATIENCE_S
    while gates.refused < count and time.monotonic() < end_s:
        time.sleep(0.01)
    return gates.refused


@pytest.mark.parametrize(
    ("secret", "key_of", "job"),
    [
        pytest.param(OTHER, 0, 1, id="of another job"),
        pytest.param(SECRET, 1, 1, id="of another rank"),
        pytest.param(SECRET, 0, 3, id="of a job that the driver has not"),
    ],
)
@pytest.mark.parametrize("more", [{}, {"asks": "plan"}])
def test_who_has_another_key_is_no_rank_and_gets_no_plan(gates, secret, key_of, job, more):
    gates.hand_out(1, '{"job": {"id": 1}}')
    line = connected(gates.address)
    greeted(line, gate_key(secret, key_of), job, 0, **more)
    assert hears_nothing(line)
    assert refusals(gates, 1) == 1
    Rank(gates.address, 1, 0)
    gates.await_ranks({1: 1}, PATIENCE_S)
    assert gates.refused == 1


class Tap:
    """A connection that keeps what is sent."""

    def __init__(self, line):
        self._line, self.sent = line, b""

    def sendall(self, words):
        self.sent += words
        self._line.sendall(words)

    def __getattr__(self, name):
        return getattr(self._line, name)


def test_what_was_recorded_on_one_line_is_of_no_use_on_another(gates):
    tap = Tap(connected(gates.address))
    rank = greeted(tap, gate_key(SECRET, 0), 1, 0)
    rank.say({"ready": True})
    gates.await_ranks({1: 1}, PATIENCE_S)
    rank.say({"bye": True})
    rank.close()
    assert gates.await_end(1, PATIENCE_S)
    thief = connected(gates.address)
    thief.sendall(tap.sent)
    assert hears_nothing(thief)
    assert refusals(gates, 1) == 1
    assert gates.end(1) == "done"


def test_what_was_said_once_cannot_be_said_again(gates):
    tap = Tap(connected(gates.address))
    rank = greeted(tap, gate_key(SECRET, 0), 1, 0)
    before = len(tap.sent)
    rank.say({"done": 7})
    tap.sendall(tap.sent[before:])
    assert refusals(gates, 1) == 1
    assert gates.end(1) == "lost"


class Engine:
    """What an engine's gate was told."""

    def __init__(self):
        self.told = []

    def open(self, rate_bps=None):
        self.told.append(("open", rate_bps))

    def shut(self, for_s):
        self.told.append(("shut", for_s))

    def stop(self, why, elsewhere):
        self.told.append(("stop", why))

    def statistics(self):
        return {"busy_seconds": 0, "datagrams_received": 0, "contributions": 0, "results": 0}

    def close(self):
        pass


def impostor(listener, says):
    """Who listens at a driver's address, answers greetings, and says something of its own."""
    while True:
        try:
            line, _ = listener.accept()
        except OSError:
            return
        made, _ = accepted(line, lambda job, rank: gate_key(SECRET, rank))
        says(made)


def unsigned(made):
    made.line.sendall(b'{"do": "open", "rate_bps": null, "number": 1}\n')


def with_another_key(made):
    made._key = gate_key(OTHER, 0)
    made.say({"do": "open", "rate_bps": None, "number": 1})


def with_the_ranks_own_tag(made):
    made._own = made._other
    made.say({"do": "stop", "why": "reflected", "elsewhere": False, "number": 1})


@pytest.mark.parametrize("says", [unsigned, with_another_key, with_the_ranks_own_tag])
def test_a_rank_believes_its_driver_alone(tmp_path, says):
    address, engine = str(tmp_path / "turns.sock"), Engine()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        threading.Thread(target=impostor, args=(listener, says), daemon=True).start()
        caller = Caller(address, 1, 0, SECRET)
        with EngineInTurns(engine, caller, caller.call()) as rank:
            end_s = time.monotonic() + PATIENCE_S
            while rank.refused < 2 and time.monotonic() < end_s:
                time.sleep(0.01)
            assert rank.refused >= 2, "it does not look for its driver again"
            listener.shutdown(socket.SHUT_RDWR)
    assert engine.told == []


def test_who_does_not_speak_the_protocol_and_who_has_no_secret_are_named(tmp_path):
    with pytest.raises(JoinError, match=r"job 1 has no secret .*; set WIRESUM_SECRET_FILE"):
        Caller("127.0.0.1:1", 1, 0, None)
    near, far = socket.socketpair()
    far.sendall(b'{"format": "wiresum-gates/1"}\n')
    with near, far, pytest.raises(JoinError, match="does not speak wiresum-gates/2; run the same release"):
        greeted(near, gate_key(SECRET, 0), 1, 0)


def both_sides():
    near, far = socket.socketpair()
    found = []
    thread = threading.Thread(target=lambda: found.append(accepted(far, lambda job, rank: gate_key(SECRET, rank))))
    thread.start()
    rank = greeted(near, gate_key(SECRET, 0), 1, 0)
    thread.join()
    return rank, found[0][0]


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_no_changed_doubled_or_left_out_line_is_believed(data):
    """The driver takes what the rank has said, each once and in order, up to the first harm, and nothing after it."""
    rank, driver = both_sides()
    rank.line = Tap(rank.line)
    said = [{"done": number} for number in range(data.draw(st.integers(1, 6)))]
    for words in said:
        rank.say(words)
    lines = rank.line.sent.splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1))
    harm = data.draw(st.sampled_from(["change", "double", "leave out", "swap"]))
    if harm == "change":
        place = data.draw(st.integers(0, len(lines[at]) - 2))
        changed = bytearray(lines[at])
        changed[place] ^= 1 << data.draw(st.integers(0, 7))
        lines[at] = bytes(changed)
    elif harm == "double":
        lines.insert(at, lines[at])
        at += 1
    elif harm == "swap" and at + 1 < len(lines):
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
    else:
        del lines[at]
    believed = []
    try:
        believed += map(driver.take, lines)
    except ForeignLineError:
        pass
    else:
        assert at == len(lines), "a harm was not seen"
    assert believed == said[: len(believed)]
    assert len(believed) <= at
    rank.close()
    driver.close()
