"""Ranks begin together."""

import threading
import time

from wiresum.bench.start import Starts


def test_all_ranks_agree_on_moments_that_none_has_passed(tmp_path):
    size = 3
    barrier = threading.Barrier(size, timeout=30)
    agreed = [[] for _ in range(size)]

    def run(rank):
        starts = Starts(tmp_path / "starts", rank, size, barrier.wait)
        for turn in range(3):
            time.sleep(0.01 * rank * turn)
            arrived = time.monotonic()
            start = starts.next()
            assert start > arrived
            agreed[rank].append(start)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert agreed[0] == agreed[1] == agreed[2]
    assert agreed[0] == sorted(agreed[0])
    assert len(set(agreed[0])) == 3


def test_what_an_earlier_run_left_does_not_count(tmp_path):
    Starts(tmp_path, 0, 1, lambda: None).next()
    (tmp_path / "1-0").write_text("0.0")
    before = time.monotonic()
    assert Starts(tmp_path, 0, 1, lambda: None).next() > before
