"""Gates and the ranks that they are of: who is told what, and what becomes of silence on either side."""

import json
import socket
import threading
import time

import pytest

from wiresum._native import gate_key
from wiresum.errors import JoinError, NoTurnError, ScheduleError
from wiresum.gates import listener as module
from wiresum.gates.lines import BY_RANK, greeted
from wiresum.gates.listener import Gates
from wiresum.gates.rank import plan_in_turn

SECRET = "5e" * 32
PATIENCE_S = 60.0
NEVER_S = 3600.0
"""Longer than a test may take: what waits for so long fails by its limit."""


class Rank:
    """What a rank does by its line, without an engine."""

    def __init__(self, address, job, rank, **more):
        self.line = connected(address)
        self.said = greeted(self.line, gate_key(SECRET, rank), job, rank, **more)
        self.say({"ready": True})

    def say(self, words):
        self.said.say(words)

    def hear(self):
        return self.said.hear()

    def obey(self):
        order = self.hear()
        self.say({"done": order["number"]})
        return order

    def vanish(self):
        self.said.close()


def connected(address):
    host, _, port = address.rpartition(":")
    line = socket.create_connection((host, int(port))) if host else socket.socket(socket.AF_UNIX)
    if not host:
        line.connect(address)
    line.settimeout(PATIENCE_S)
    return line


@pytest.fixture(params=["path", "port"])
def gates(request, tmp_path):
    address = str(tmp_path / "turns.sock") if request.param == "path" else "127.0.0.1:0"
    with Gates(address, dict.fromkeys(range(16), SECRET)) as made:
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


def heard(rank, verb):
    """The first order of this kind."""
    while True:
        order = rank.hear()
        if order["do"] == verb:
            return order


def test_peers_of_a_rank_that_has_gone_without_a_word_are_stopped_and_hear_who_it_was(gates, monkeypatch):
    monkeypatch.setattr(module, "LOST_S", 0.1)
    monkeypatch.setattr(module, "AGAIN_S", 0.05)
    ranks, other = [Rank(gates.address, 1, rank) for rank in range(3)], Rank(gates.address, 2, 0)
    gates.await_ranks({1: 3, 2: 1}, PATIENCE_S)
    gates.open(1)
    ranks[1].vanish()
    for rank in (0, 2):
        stop = heard(ranks[rank], "stop")
        assert "rank 1 of job 1 has ended without a word" in stop["why"]
        assert not stop["elsewhere"], "who is dead sums nowhere"
    assert heard(other, "shut"), "another job is none of its business"
    assert heard(Rank(gates.address, 1, 1), "stop"), "who comes too late hears it at once"


def test_a_rank_whose_line_has_broken_comes_back_and_nobody_is_stopped(gates, monkeypatch):
    monkeypatch.setattr(module, "AGAIN_S", 0.05)
    ranks = [Rank(gates.address, 1, rank) for rank in range(2)]
    gates.await_ranks({1: 2}, PATIENCE_S)
    ranks[1].vanish()
    while not gates._jobs[1].ranks[1].end:
        time.sleep(0.01)
    again = Rank(gates.address, 1, 1)
    monkeypatch.setattr(module, "LOST_S", 0.0)
    gates.await_ranks({1: 2}, PATIENCE_S)
    assert [heard(rank, "shut")["do"] for rank in (ranks[0], again) for _ in range(3)] == ["shut"] * 6


@pytest.mark.parametrize(("offers", "size", "can"), [((1, 1), 2, True), ((1, 0), 2, False), ((1, 1), 3, False)])
def test_a_job_leaves_the_network_where_all_of_its_ranks_are_there_and_can(gates, offers, size, can):
    ranks = [Rank(gates.address, 1, rank, elsewhere=bool(offer)) for rank, offer in enumerate(offers)]
    gates.await_ranks({1: 2}, PATIENCE_S)
    assert gates.can_leave(1, size) is can
    gates.stop(1, "no light", elsewhere=can)
    assert [heard(rank, "stop")["elsewhere"] for rank in ranks] == [can] * 2


@pytest.mark.parametrize("ends", ["bye", "lost", "comes back"])
def test_a_job_leaves_with_all_of_its_ranks_or_none(gates, monkeypatch, ends):
    """Others may need the results of one that has gone; one whose line has just broken comes back."""
    monkeypatch.setattr(module, "LOST_S", NEVER_S if ends == "comes back" else 0.1)
    ranks = [Rank(gates.address, 1, rank, elsewhere=True) for rank in range(2)]
    gates.await_ranks({1: 2}, PATIENCE_S)
    if ends == "bye":
        ranks[1].say({"bye": True})
    else:
        ranks[1].vanish()
    while not gates._jobs[1].ranks[1].end:
        time.sleep(0.01)
    if ends == "comes back":
        again = threading.Timer(0.1, lambda: ranks.append(Rank(gates.address, 1, 1, elsewhere=True)))
        again.start()
    assert gates.can_leave(1, 2) is (ends == "comes back")


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
        asked[rank] = plan_in_turn(gates.address, 3, rank, SECRET)

    for rank in range(2):
        threads.append(threading.Thread(target=ask, args=(rank,)))
        threads[-1].start()
    gates.await_askers({3: 2}, PATIENCE_S)
    assert not asked
    gates.hand_out(3, '{"job": {"id": 3}}')
    whole = json.dumps({"job": {"id": 3, "secret": SECRET}})
    for thread in threads:
        thread.join(PATIENCE_S)
    assert asked == dict.fromkeys(range(2), whole)
    assert plan_in_turn(gates.address, 3, 2, SECRET) == whole
    with pytest.raises(ScheduleError, match="rank 0 of job 4 has ended, or has not asked for its plan"):
        gates.await_askers({4: 1}, 0.1)
    last = threading.Thread(target=lambda: (gates.await_askers({5: 1}, PATIENCE_S), gates.close()))
    last.start()
    with pytest.raises(JoinError, match="has ended before job 5 had a turn"):
        plan_in_turn(gates.address, 5, 0, SECRET)


def test_a_job_without_a_turn_is_told_so(gates):
    threading.Thread(target=lambda: (gates.await_askers({6: 1}, PATIENCE_S), gates.refuse(6, "no port"))).start()
    for _ in range(2):
        with pytest.raises(NoTurnError, match="has no turn for job 6: no port"):
            plan_in_turn(gates.address, 6, 0, SECRET)


def test_ranks_of_another_schedule_are_told_that_they_have_no_turn(gates):
    early = Rank(gates.address, 8, 0)
    assert early.hear()["do"] == "shut"
    gates.expect({7})
    late = Rank(gates.address, 9, 0)
    for rank, job in ((early, 8), (late, 9)):
        order = rank.hear()
        assert (order["do"], order["elsewhere"]) == ("stop", False)
        assert order["why"] == f"job {job} has no turn in this driver's schedule"
    assert Rank(gates.address, 7, 0).hear()["do"] == "shut"


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
    line = connected(address)
    line.sendall(words)
    return line


def hears_nothing(line):
    """Whether a line ends after the driver's number, without an order or a plan."""
    with line, line.makefile("rb") as words:
        try:
            return words.read().count(b"\n") <= 1
        except ConnectionResetError:
            return True


def signed(rank, text):
    """A line with the rank's own tag, whatever is in it."""
    tag = rank.said._tag(BY_RANK, rank.said._said, text)
    return tag + b" " + text + b"\n"


@pytest.mark.parametrize("is_signed", [False, True])
@pytest.mark.parametrize(
    "words", [b"[1]", b"7", b'{"done": Infinity}', b'{"results": {}}', b"[" * 4000, b"\xff" * 9000, b"null"]
)
def test_a_rank_that_talks_nonsense_is_lost_and_its_job_ends(gates, words, is_signed):
    rank = Rank(gates.address, 1, 0)
    gates.await_ranks({1: 1}, PATIENCE_S)
    rank.line.sendall(signed(rank, words) if is_signed else words + b"\n")
    assert gates.await_end(1, PATIENCE_S)
    assert gates.end(1) == "lost"


def test_nobody_takes_the_place_of_a_rank_that_is_there(gates):
    """Not even who has its key."""
    rank = Rank(gates.address, 1, 0)
    gates.await_ranks({1: 1}, PATIENCE_S)
    line = connected(gates.address)
    greeted(line, gate_key(SECRET, 0), 1, 0)
    assert hears_nothing(line), "a stranger hears orders"
    rank.obey()
    gates.open(1, 1e6)
    while rank.hear()["do"] != "open":
        pass
    assert gates.end(1) == ""


@pytest.mark.parametrize(("job", "rank"), [(1 << 16, 0), (-1, 0), (1, 256), (1, -1)])
def test_numbers_that_no_packet_has_are_refused(gates, job, rank):
    line = connected(gates.address)
    greeted(line, gate_key(SECRET, 0), job, rank)
    assert hears_nothing(line)


def test_floods_and_silent_strangers_leave_room_for_ranks(gates, monkeypatch):
    """Lines beyond the bound are ended, and so are those that say nothing; then ranks have theirs."""
    monkeypatch.setattr(module, "MOST_LINES", 20)
    monkeypatch.setattr(module, "GREETING_S", 0.5)
    lines = [stranger(gates.address) for _ in range(60)]
    assert all(map(hears_nothing, lines))
    Rank(gates.address, 1, 0)
    gates.await_ranks({1: 1}, PATIENCE_S)


def test_a_rank_that_does_not_read_stops_nobody_else(gates, monkeypatch):
    deaf, other = Rank(gates.address, 1, 0), Rank(gates.address, 2, 0)
    gates.await_ranks({1: 1, 2: 1}, PATIENCE_S)
    threading.Thread(target=lambda: [gates.stop(1, "x" * 500) for _ in range(20_000)], daemon=True).start()
    assert gates.await_end(1, 2 * PATIENCE_S)
    assert gates.end(1) == "lost"
    other.obey()
    gates.open(2)
    while other.hear()["do"] != "open":
        pass
    deaf.vanish()


@pytest.mark.parametrize("words", [b"hello\n", b"{}\n", b'{"format": "other", "job": 1, "rank": 0}\n', b"[1]\n", b"\n"])
def test_strangers_are_sent_away_and_count_for_nobody(gates, words):
    assert hears_nothing(stranger(gates.address, words))
    Rank(gates.address, 1, 0)
    gates.await_ranks({1: 1}, PATIENCE_S)


def test_an_address_that_cannot_be_had_is_an_error(tmp_path):
    with pytest.raises(ScheduleError, match=r"cannot listen at .*; give --listen another one"):
        Gates(str(tmp_path / "missing" / "turns.sock"), {})
