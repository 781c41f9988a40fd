"""A rank that pushes rows of which all sums are known, and compares all rows after each round.

Its values are such that float32 adds them without an error, so any order of adding comes to the same bits.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from numpy.typing import NDArray

from wiresum.sparse.client import SparseClient

TABLE, ROWS, WIDTH = "users", 200, 16
HOT = 40
"""Rows from 0 on: the first half is of tier A, the other of tier B."""
WORKERS = 3
PERIOD = 12
"""Rounds after which ranks touch the same rows again, with the same gradients but for their sign."""


def gradients(rank: int, number: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rows of a rank in a round, and their gradients: everybody has some hot ones, and a third of the cold."""
    keys = np.arange(ROWS)
    touched = keys[((keys + number) % 2 == 0) & (keys < HOT) | ((keys * 7 + rank + number) % 3 == 0)]
    lanes = (np.arange(WIDTH) * 3.0 + rank) / 1024
    # All repeats after 12 rounds; with the other sign every second time weights stay small enough to be exact.
    sign = 1.0 if number // PERIOD % 2 else -1.0
    return touched, (sign * ((touched[:, None] - 20.0) / 64 + lanes + number % 4)).astype(np.float32)


def main(job: str, rank: int, rounds: int, incarnation: int, pause_s: float) -> None:
    """Plays the rank; prints a line with the time for each round that had the right bits."""
    expected = np.zeros((ROWS, WIDTH), np.float32)
    with SparseClient.connect(job, rank, incarnation=incarnation) as client:
        for number in range(1, rounds + 1):
            client.push(TABLE, *gradients(rank, number))
            assert client.finish_round() == number
            for other in range(WORKERS):
                keys, values = gradients(other, number)
                expected[keys] -= values
            assert (client.pull(TABLE, np.arange(ROWS)) == expected).all(), f"round {number}"
            print(f"round {number} {time.monotonic()}", flush=True)
            time.sleep(pause_s)


if __name__ == "__main__":
    job_file, own_rank, rounds_of_run, own_incarnation, pause = sys.argv[1:]
    main(job_file, int(own_rank), int(rounds_of_run), int(own_incarnation), float(pause))
