"""`wiresum bench kills --tables`: SIGKILL of servers of tables in the middle of rounds, and what each costs."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from wiresum.bench.kills import row_worker
from wiresum.bench.kills.command import Options
from wiresum.bench.kills.killing import FEWEST_PAUSE_S, MOST_PAUSE_S, POLL_S, RECOVERY_S, START_S, Progress
from wiresum.bench.result import Report, Result
from wiresum.deploy.tables import TableDaemons, daemon
from wiresum.errors import TestbedError
from wiresum.sparse.job import sparse_job
from wiresum.testbed import Testbed
from wiresum.testbed.tables import FIRST_PORT
from wiresum.topology.generators.star import star

RATE_BPS = 100e6
SERVERS = 2
"""Servers of tables. The first one coordinates the hot set, and is killed as often as the other."""
SNAPSHOT_S = 0.1
"""Seconds from one snapshot to the next."""
ROUNDS_AFTER = 2
"""Rounds of every rank after which a server that was killed counts as back."""
MOST_LISTED = 200
"""Rounds without kills that are listed, evenly among all: there are thousands."""
MAX_ROUNDS = 1_000_000
"""Bound of a run that ends when the kills are over."""


@dataclass
class Rank:
    """A worker, and when its rounds ended, each with the right bits (monotonic seconds)."""

    process: subprocess.Popen[bytes]
    times: list[float] = field(default_factory=list)
    errors: str = ""

    def follow(self) -> None:
        """Reads what the worker says until it ends."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        for line in self.process.stdout:
            self.times.append(float(line.split()[2]))
        self.errors = self.process.stderr.read().decode(errors="replace")


@dataclass(frozen=True)
class Kill:
    """One kill: which server, when, and when every rank had ended rounds again (monotonic seconds)."""

    server: int
    at: float
    back_at: float


def measure(options: Options, progress: Progress) -> Report:
    """Lets workers push and pull rows whose bits they know, kills servers, and compares every row in every round.

    Raises:
        TestbedError: a worker ended, or rounds did not go on after a kill.
    """
    nodes = [*(f"s{number}" for number in range(SERVERS)), "switch"]
    with Testbed(star(row_worker.WORKERS, RATE_BPS, servers=SERVERS)) as bed:

        def command(job_file: Path, number: int) -> list[str]:
            snapshots = ["--snapshots", str(bed.folder), "--snapshot-interval", str(SNAPSHOT_S)]
            return [*daemon(job_file, number), *(snapshots if number < SERVERS else [])]

        with TableDaemons(bed, _job(bed, nodes), nodes, command) as daemons:
            ranks = [_start(bed, daemons.job_file, rank) for rank in range(row_worker.WORKERS)]
            readers = [threading.Thread(target=rank.follow, daemon=True) for rank in ranks]
            for reader in readers:
                reader.start()
            try:
                kills = _kill_all(options, daemons, ranks, progress)
            finally:
                for rank in ranks:
                    rank.process.kill()
                for reader in readers:
                    reader.join()
    return to_report(options, kills, [rank.times for rank in ranks])


def _job(bed: Testbed, nodes: list[str]) -> str:
    addresses = [f"{bed.address(node)}:{FIRST_PORT + number}" for number, node in enumerate(nodes)]
    table = {
        "name": row_worker.TABLE, "rows": {"counted": row_worker.ROWS}, "dim": row_worker.WIDTH, "seed": 1,
        "optimizer": {"name": "sgd", "lr": 1.0}, "initial": "zeros",
    }  # fmt: skip
    tiers = [[0, key, key, "A" if key < row_worker.HOT // 2 else "B"] for key in range(row_worker.HOT)]
    hot = {
        "format": "wiresum-hot-map/1", "version": 1, "dim": row_worker.WIDTH, "positions": len(tiers), "rows": tiers,
    }  # fmt: skip
    servers, switches = addresses[:SERVERS], addresses[SERVERS:]
    return sparse_job([table], row_worker.WORKERS, servers, switches, hot=json.dumps(hot))


def _start(bed: Testbed, job_file: Path, rank: int) -> Rank:
    line = [sys.executable, "-m", row_worker.__name__, str(job_file), str(rank), str(MAX_ROUNDS), "1", "0"]
    return Rank(bed.spawn(f"w{rank}", line, stdout=subprocess.PIPE, stderr=subprocess.PIPE))


def _kill_all(options: Options, daemons: TableDaemons, ranks: list[Rank], progress: Progress) -> list[Kill]:
    chance, kills = random.Random(options.seed), list[Kill]()
    _await_rounds(ranks, ROUNDS_AFTER, START_S)
    for done in range(options.count):
        progress(done, options.count)
        time.sleep(chance.uniform(FEWEST_PAUSE_S, MOST_PAUSE_S))
        server, at = chance.randrange(SERVERS), time.monotonic()
        daemons.kill(server)
        time.sleep(options.down_s)
        daemons.revive(server)
        _await_rounds(ranks, max(len(rank.times) for rank in ranks) + ROUNDS_AFTER, RECOVERY_S)
        kills.append(Kill(server, at, time.monotonic()))
    progress(options.count, options.count)
    return kills


def _await_rounds(ranks: list[Rank], rounds: int, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while any(len(rank.times) < rounds for rank in ranks):
        ended = next((rank for rank in ranks if rank.process.poll() is not None), None)
        if ended is not None or time.monotonic() > deadline:
            time.sleep(10 * POLL_S)
            words = " ".join(rank.errors.strip() for rank in ranks)[-1000:]
            raise TestbedError(f"round {rounds} did not end on all ranks within {within_s:.0f} s: {words}")
        time.sleep(POLL_S)


def to_report(options: Options, kills: list[Kill], times: list[list[float]]) -> Report:
    """The pause of each kill, beside a round's time.

    Args:
        options: of the run.
        kills: in order.
        times: when each rank's rounds ended.
    """
    gaps = [pair for ended in times for pair in itertools.pairwise(ended)]

    def pause_s(kill: Kill) -> float:
        return max(later - earlier for earlier, later in gaps if later >= kill.at and earlier <= kill.back_at)

    busy = [(kill.at, kill.back_at) for kill in kills]
    calm = [b - a for a, b in gaps if all(b < at or a > back_at for at, back_at in busy)]
    listed = [{"server": kill.server, "at": round(kill.at - kills[0].at, 3)} for kill in kills]
    results = [
        Result("longest gap between rounds, by kill", "s", [pause_s(kill) for kill in kills], {"kills": listed}),
        Result("round without kills", "s", calm[:: 1 + len(calm) // MOST_LISTED] or [0.0]),
    ]
    parameters = {
        "kills": len(kills), "topology": f"star, {len(times)} workers, {SERVERS} servers", "down_s": options.down_s,
        "snapshot_s": SNAPSHOT_S, "seed": options.seed,
    }  # fmt: skip
    rounds = min(map(len, times))
    return Report("kills", parameters, results, notes=[f"{rounds} rounds, after each of which every row had its bits"])
