"""Gates and the ranks that they are of: who is told what, and what becomes of silence on either side."""

import json
import socket
import threading
import time

import pytest

from wiresum.errors import JoinError, ScheduleError
from wiresum.gates import FORMAT
from wiresum.gates import listener as module
from wiresum.gates.listener import Gates
from wiresum.gates.rank import plan_in_turn

PATIENCE_S = 60.0
NEVER_S = 3600.0
"""Longer than a test may take: what waits for so long fails by its limit."""


class Rank:
    """What a rank does by its line, without an engine."""

    def __init__(self, address, job, rank):
        host, _, port = address.rpartition(":")
        if host:
            self.line = socket.create_connection((host, int(port)))
        else:
            self.line = socket.socket(socket.AF_UNIX)
            self.line.connect(address)
        self.line.settimeout(PATIENCE_S)
        self.orders = self.line.makefile("rb")
        self.say({"format": FORMAT, "job": job, "rank": rank})
        self.say({"ready": True})

    def say(self, words):
        self.line.sendall(json.dumps(words).encode() + b"\n")

    def hear(self):
        return json.loads(self.orders.readline())

    def obey(self):
        order = self.hear()
        self.say({"done": order["number"]})
        return order

    def vanish(self):
        self.orders.close()
        self.line.close()


@pytest.fixture(params=["path", "port"])
def gates(request, tmp_path):
    with Gates(str(tmp_path / "turns.sock") if request.param == "path" else "127.0.0.1:0") as made:
        yield made


def test_a_rank_is_shut_when_it_comes_and_told_when_to_open(gates):
    rank = Rank(gates.address, 7, 0)
    gates.await_ranks({7: 1}, PATIENCE_S)
    assert rank.obey()["do"] == "shut"
    gates.open(7, 5e6)
    assert rank.obey() == {"do": "open", "rate_bps": 5e6, "number": 2}


def test_shut_gates_are_told_again_and_open_ones_are_not(gates, monkeypatch):
    monkeypatch.setattr(module, "AGAIN_S", 0.05)
    time.sleep(0.1)
    shut, opened = Rank(gates.address, 1, 0), Rank(gates.address, 2, 0)
    gates.await_ranks({1: 1, 2: 1}, PATIENCE_S)
    gates.open(2)
    assert [shut.hear()["do"] for _ in range(3)] == ["shut"] * 3
    while opened.hear()["do"] == "shut":
        pass
    opened.line.settimeout(1.5 * module.AGAIN_S)
    with pytest.raises(TimeoutError):
        opened.hear()


def test_shutting_waits_for_every_rank_that_is_there_and_for_no_other(gates, monkeypatch):
    monkeypatch.setattr(module, "ANSWER_S", NEVER_S)
    ranks = [Rank(gates.address, 1, rank) for rank in range(2)]
    gates.await_ranks({1: 2}, PATIENCE_S)
    for rank in ranks:
        rank.obey()
    gates.open(1)
    for rank in ranks:
        rank.obey()
    ranks[1].vanish()
    answered = []
    thread = threading.Thread(target=lambda: answered.append(ranks[0].obey()))
    thread.start()
    gates.shut([1])
    thread.join(PATIENCE_S)
    assert [order["do"] for order in answered] == ["shut"]


def test_a_job_has_ended_when_all_of_its_ranks_have(gates):
    ranks = [Rank(gates.address, 1, rank) for rank in range(2)]
    gates.await_ranks({1: 2}, PATIENCE_S)
    ranks[0].say({"bye": True})
    assert not gates.await_end(1, 0.05)
    assert gates.end(1) == ""
    ranks[1].say({"bye": True})
    assert gates.await_end(1, PATIENCE_S)
    assert gates.end(1) == "done"


def test_a_job_that_nobody_has_come_of_has_not_ended_until_it_is_abandoned(gates):
    assert gates.end(1) == ""
    assert not gates.await_end(1, 0.05)
    gates.abandon(1)
    assert gates.end(1) == "lost"


def test_a_rank_that_goes_without_a_word_is_lost(gates):
    rank = Rank(gates.address, 1, 0)
    gates.await_ranks({1: 1}, PATIENCE_S)
    rank.vanish()
    assert gates.await_end(1, PATIENCE_S)
    assert gates.end(1) == "lost"


def test_ranks_that_do_not_come_are_named(gates):
    Rank(gates.address, 1, 0)
    with pytest.raises(ScheduleError, match="rank 1 of job 1, 0 of job 2 has ended, or has nothing to send"):
        gates.await_ranks({1: 2, 2: 1}, 0.2)
    gates.abandon(2)
    with pytest.raises(ScheduleError, match="has ended, or has nothing to send"):
        gates.await_ranks({1: 2, 2: 1}, NEVER_S)


def test_ranks_wait_for_their_plan_and_late_ones_have_it_at_once(gates):
    asked, threads = {}, []

    def ask(rank):
        asked[rank] = plan_in_turn(gates.address, 3, rank)

    for rank in range(2):
        threads.append(threading.Thread(target=ask, args=(rank,)))
        threads[-1].start()
    gates.await_askers({3: 2}, PATIENCE_S)
    assert not asked
    gates.hand_out(3, '{"job": 3}')
    for thread in threads:
        thread.join(PATIENCE_S)
    assert asked == dict.fromkeys(range(2), '{"job": 3}')
    assert plan_in_turn(gates.address, 3, 2) == '{"job": 3}'
    with pytest.raises(ScheduleError, match="rank 0 of job 4 has ended, or has not asked for its plan"):
        gates.await_askers({4: 1}, 0.1)
    last = threading.Thread(target=lambda: (gates.await_askers({5: 1}, PATIENCE_S), gates.close()))
    last.start()
    with pytest.raises(JoinError, match="has no turn for job 5, or has ended"):
        plan_in_turn(gates.address, 5, 0)


def test_a_job_without_a_turn_is_told_so(gates):
    threading.Thread(target=lambda: (gates.await_askers({6: 1}, PATIENCE_S), gates.refuse(6))).start()
    for _ in range(2):
        with pytest.raises(JoinError, match="has no turn for job 6"):
            plan_in_turn(gates.address, 6, 0)


def test_ranks_say_how_many_results_they_have(gates):
    ranks = [Rank(gates.address, 1, rank) for rank in range(2)]
    gates.await_ranks({1: 2}, PATIENCE_S)

    def obey(rank, results):
        while rank.hear()["do"] != "tell":
            pass
        rank.say({"done": 1 << 30, "results": results})

    for rank, results in zip(ranks, (7, 5), strict=True):
        threading.Thread(target=obey, args=(rank, results)).start()
    assert gates.results([1]) == {1: 5}


def stranger(address, words=b""):
    host, _, port = address.rpartition(":")
    line = socket.create_connection((host, int(port))) if host else socket.socket(socket.AF_UNIX)
    if not host:
        line.connect(address)
    line.settimeout(PATIENCE_S)
    line.sendall(words)
    return line


@pytest.mark.parametrize(
    "words",
    [b"[1]\n", b"7\n", b'{"done": Infinity}\n', b'{"results": {}}\n', b"[" * 4000 + b"\n", b"\xff" * 9000, b"null\n"],
)
def test_a_rank_that_talks_nonsense_is_lost_and_its_job_ends(gates, words):
    rank = Rank(gates.address, 1, 0)
    gates.await_ranks({1: 1}, PATIENCE_S)
    rank.line.sendall(words)
    assert gates.await_end(1, PATIENCE_S)
    assert gates.end(1) == "lost"


def test_nobody_takes_the_place_of_a_rank_that_is_there(gates):
    rank = Rank(gates.address, 1, 0)
    gates.await_ranks({1: 1}, PATIENCE_S)
    greeting = {"format": FORMAT, "job": 1, "rank": 0}
    with stranger(gates.address, json.dumps(greeting).encode() + b"\n") as line:
        assert line.recv(1) == b"", "a stranger hears orders"
    rank.obey()
    gates.open(1, 1e6)
    while rank.hear()["do"] != "open":
        pass
    assert gates.end(1) == ""


@pytest.mark.parametrize(("job", "rank"), [(1 << 16, 0), (-1, 0), (1, 256), (1, -1)])
def test_numbers_that_no_packet_has_are_refused(gates, job, rank):
    greeting = {"format": FORMAT, "job": job, "rank": rank}
    with stranger(gates.address, json.dumps(greeting).encode() + b"\n") as line:
        assert line.recv(1) == b""


def test_floods_and_silent_strangers_leave_room_for_ranks(gates, monkeypatch):
    """Lines beyond the bound are ended, and so are those that say nothing; then ranks have theirs."""
    monkeypatch.setattr(module, "MOST_LINES", 20)
    monkeypatch.setattr(module, "GREETING_S", 0.5)
    lines = [stranger(gates.address) for _ in range(60)]
    assert all(line.recv(1) == b"" for line in lines)
    Rank(gates.address, 1, 0)
    gates.await_ranks({1: 1}, PATIENCE_S)


def test_a_rank_that_does_not_read_stops_nobody_else(gates, monkeypatch):
    deaf, other = Rank(gates.address, 1, 0), Rank(gates.address, 2, 0)
    gates.await_ranks({1: 1, 2: 1}, PATIENCE_S)
    threading.Thread(target=lambda: [gates.open(1, why="x" * 500) for _ in range(20_000)], daemon=True).start()
    assert gates.await_end(1, 2 * PATIENCE_S)
    assert gates.end(1) == "lost"
    other.obey()
    gates.open(2)
    while other.hear()["do"] != "open":
        pass
    deaf.vanish()


@pytest.mark.parametrize("words", [b"hello\n", b"{}\n", b'{"format": "other", "job": 1, "rank": 0}\n', b"[1]\n", b"\n"])
def test_strangers_are_sent_away_and_count_for_nobody(gates, words):
    line = stranger(gates.address, words)
    assert line.recv(1) == b""
    Rank(gates.address, 1, 0)
    gates.await_ranks({1: 1}, PATIENCE_S)


def test_an_address_that_cannot_be_had_is_an_error(tmp_path):
    with pytest.raises(ScheduleError, match=r"cannot listen at .*; give --listen another one"):
        Gates(str(tmp_path / "missing" / "turns.sock"))
