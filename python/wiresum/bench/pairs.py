"""Iterations of Zebra's switch program, live: what they take in all, and at the switch's station.

Run as a program this is one worker.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from secrets import token_hex

from wiresum import _native
from wiresum.bench.result import Result
from wiresum.bench.workers import answers
from wiresum.deploy.daemon import find_binary, over
from wiresum.deploy.tables import TableDaemons
from wiresum.plan.incarnation import next_incarnation
from wiresum.testbed import Testbed
from wiresum.topology.generators.star import star

FORMAT = "wiresum-keyed-job/1"
"""`crates/sparse/src/live/keyed/job.rs` reads and checks it."""
REGISTERS, PAIRS = 24, 10
"""Registers of nine stages, and pairs of 192 bytes: Zebra's program."""
WARMUPS = 2
PORT = 5747
SWITCH = 1
"""Number of the switch among the nodes of a job; the server is 0."""
SECRET_BYTES, PATIENCE_S = 32, 300.0


def measure(workers: int, rate_bps: float, hot: int, iterations: int) -> Result:
    """Iterations in which every worker pushes every hot key: seconds of each, at the slowest worker.

    The program is in the kernel, or over loopback in user space (`in_kernel`). `station_s` is what the station takes in
    the mean, from when it reads that an iteration is complete until the sums are on their way.

    Args:
        workers: hosts around the switch, beside a server.
        rate_bps: of each link, each way.
        hot: hot keys.
        iterations: measured ones.

    Raises:
        TestbedError: a worker failed; the message has the end of its output.
        DeploymentError: a daemon does not start.
    """
    with Testbed(star(workers, rate_bps, servers=1), in_kernel=["switch"]) as bed:
        job = {
            "format": FORMAT, "id": 1, "workers": workers, "hot": list(range(hot)), "registers": REGISTERS,
            "pairs": PAIRS, "server": f"{bed.address('s0')}:{PORT}", "switch": f"{bed.address('switch')}:{PORT + 1}",
            "secret": token_hex(SECRET_BYTES),
        }  # fmt: skip
        ports = [] if bed.why_loopback else bed.interfaces("switch")

        def daemon(file: Path, number: int) -> list[str]:
            engine = over("xdp", ports) if ports and number == SWITCH else []
            return [find_binary(), "--pairs", str(file), "--json", "--node", str(number), *engine]

        with TableDaemons(bed, json.dumps(job), ["s0", "switch"], daemon, "pairs") as daemons:
            seconds = _play(bed, daemons.job_file, hot, iterations + WARMUPS)
            switch = daemons.servers[SWITCH]
        control = json.loads(switch.lines()[-1])["control"]
    extra = {"hot": hot, "in_kernel": bool(ports), "station_s": control["station_us"] / 1e6 / control["iterations"]}
    return Result(f"{hot} hot keys", "s", seconds[WARMUPS:], extra)


def _play(bed: Testbed, file: Path, hot: int, iterations: int) -> list[float]:
    """Seconds of each iteration, at the slowest worker."""
    words = [sys.executable, "-m", __name__, str(file), *map(str, (next_incarnation(), hot, iterations))]
    commands = [[*words, str(rank)] for rank in range(len(bed.workers))]
    return [max(each) for each in zip(*answers(bed, commands, "pairs", PATIENCE_S), strict=True)]


def main() -> None:
    """Plays a worker."""
    file, incarnation, hot, iterations, rank = sys.argv[1], *map(int, sys.argv[2:])
    job = Path(file).read_text(encoding="utf-8")
    print(json.dumps(_native.bench_pairs_worker(job, rank, incarnation, [list(range(hot))] * iterations)))


if __name__ == "__main__":
    main()
