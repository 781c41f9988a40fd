"""Iterations of Zebra's switch program, live: what they take in all, and at the switch's station.

Run as a program this is one worker.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from secrets import token_hex

from wiresum import _native
from wiresum.bench.result import Result
from wiresum.deploy.daemon import find_binary
from wiresum.deploy.server import start_server
from wiresum.document import write_text
from wiresum.errors import TestbedError
from wiresum.plan.incarnation import next_incarnation
from wiresum.testbed import Testbed
from wiresum.topology.generators.star import star

FORMAT = "wiresum-keyed-job/1"
"""`crates/sparse/src/live/keyed/job.rs` reads and checks it."""
REGISTERS, PAIRS = 24, 10
"""Registers of nine stages, and pairs of 192 bytes: Zebra's program."""
WARMUPS = 2
PORT = 5747
SERVER, SWITCH = 0, 1
"""Numbers of the nodes of a job."""
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
        file = Path(bed.folder) / "pairs.json"
        write_text(file, json.dumps(job), "job of pairs", TestbedError, is_secret=True)
        line = [find_binary(), "--pairs", str(file), "--json", "--node"]
        ports = [] if bed.why_loopback else bed.interfaces("switch")
        kernel = [word for port in ports for word in ("--interface", port)]
        engine = ["--engine", "xdp", *kernel] if kernel else []
        commands = {"s0": [*line, str(SERVER)], "switch": [*line, str(SWITCH), *engine]}
        nodes = {name: start_server(bed, name, command, "pairs") for name, command in commands.items()}
        try:
            for node in nodes.values():
                node.await_ready()
            seconds = _play(bed, file, hot, iterations + WARMUPS)
        finally:
            for node in nodes.values():
                node.end()
        control = json.loads(nodes["switch"].lines()[-1])["control"]
    extra = {"hot": hot, "in_kernel": bool(engine), "station_s": control["station_us"] / 1e6 / control["iterations"]}
    return Result(f"{hot} hot keys", "s", seconds[WARMUPS:], extra)


def _play(bed: Testbed, file: Path, hot: int, iterations: int) -> list[float]:
    """Seconds of each iteration, at the slowest worker."""
    numbers = [next_incarnation(), hot, iterations]
    words = [sys.executable, "-m", __name__, str(file), *map(str, numbers)]
    workers = [
        bed.spawn(name, [*words, str(rank)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for rank, name in enumerate(bed.workers)
    ]
    answers = []
    for rank, worker in enumerate(workers):
        output, errors = worker.communicate(timeout=PATIENCE_S)
        if worker.returncode:
            last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
            raise TestbedError(f"worker {rank} of a job of pairs ended with {worker.returncode}: {last[0]}")
        answers.append(json.loads(output))
    return [max(each) for each in zip(*answers, strict=True)]


def main() -> None:
    """Plays a worker."""
    file, incarnation, hot, iterations, rank = sys.argv[1], *map(int, sys.argv[2:])
    job = Path(file).read_text(encoding="utf-8")
    print(json.dumps(_native.bench_pairs_worker(job, rank, incarnation, [list(range(hot))] * iterations)))


if __name__ == "__main__":
    main()
