"""Hot rows that a switch sums in user space or in the kernel, live: the same bits, whatever happens on the way."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from wiresum.bench.kills import row_worker
from wiresum.deploy.control import ask
from wiresum.deploy.tables import TableDaemons, daemon
from wiresum.errors import ControlError
from wiresum.sparse.job import sparse_job
from wiresum.testbed import Testbed
from wiresum.testbed.namespaces import inside
from wiresum.topology.generators.star import star

ROUNDS = 12
PATIENCE_S = 120.0
PORT = 5748
ENGINES = [pytest.param("udp", id="user space"), pytest.param("xdp", marks=pytest.mark.needs("xdp"), id="kernel")]
pytestmark = pytest.mark.usefixtures("namespaces")

Harm = Callable[["Run"], None]


class Run:
    """A job of three workers, two servers and a switch; in a tree, that switch sums for two of the workers.

    The root is then a third program at the first server's host, which hears the third worker itself.
    """

    def __init__(self, bed: Testbed, engine: str, *, tree: bool = False) -> None:
        self.bed, self.engine = bed, engine
        self.nodes = ["s0", "s1", "s0", "switch"] if tree else ["s0", "s1", "switch"]
        self.switch = len(self.nodes) - 1
        addresses = [f"{bed.address(node)}:{PORT + number}" for number, node in enumerate(self.nodes)]
        tables = [
            {"name": row_worker.TABLE, "rows": {"counted": row_worker.ROWS}, "dim": row_worker.WIDTH, "seed": 1,
             "optimizer": {"name": "sgd", "lr": 1.0}, "initial": "zeros"}
        ]  # fmt: skip
        tiers = [[0, key, key, "A" if key < row_worker.HOT // 2 else "B"] for key in range(row_worker.HOT)]
        hot = {
            "format": "wiresum-hot-map/1",
            "version": 1,
            "dim": row_worker.WIDTH,
            "positions": len(tiers),
            "rows": tiers,
        }
        self.address = addresses[self.switch]
        self.text = sparse_job(
            tables, row_worker.WORKERS, addresses[:2], addresses[2:], hot=json.dumps(hot), packet_bytes=400,
            tree={"parents": [0], "leaves": [1, 1, 0]} if tree else None,
        )  # fmt: skip
        self.daemons = TableDaemons(bed, self.text, self.nodes, self._command)
        self.workers: list[subprocess.Popen[bytes]] = []

    def socket(self, number: int) -> Path:
        """Where a daemon takes orders."""
        return self.bed.folder / f"node-{number}.sock"

    def _command(self, job_file: Path, number: int) -> list[str]:
        ports = self.bed.interfaces("switch") if (number, self.engine) == (self.switch, "xdp") else ()
        line = [*daemon(job_file, number, ports), "--control", str(self.socket(number))]
        return [*line, "--snapshots", str(self.bed.folder), "--snapshot-interval", "0.05"] if number < 2 else line

    def begin(self, incarnation: int = 1, pause_s: float = 0.0) -> None:
        """Starts the workers."""
        script = str(Path(row_worker.__file__))
        numbers = [str(ROUNDS), str(incarnation), str(pause_s)]
        for rank in range(row_worker.WORKERS):
            line = [sys.executable, script, str(self.daemons.job_file), str(rank), *numbers]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            self.workers.append(self.bed.spawn(f"w{rank}", line, **pipes))

    def await_round(self) -> None:
        """Waits until a worker has had a round."""
        output = self.workers[0].stdout
        assert output is not None
        assert output.readline().startswith(b"round 1 ")

    def ends(self) -> list[tuple[int, str]]:
        """Exit code and errors of each worker."""
        ended = [(worker, worker.communicate(timeout=PATIENCE_S)) for worker in self.workers]
        return [(worker.returncode, errors.decode()) for worker, (_, errors) in ended]

    def status(self, number: int) -> dict[str, object]:
        """What a daemon says."""
        return ask(self.socket(number), "status")


def play(
    name: str, engine: str, harm: Harm, *, tree: bool = False, loss: float = 0.0, pause_s: float = 0.0
) -> tuple[list[tuple[int, str]], dict]:
    """Ends of the workers, and the last words of the switch."""
    in_kernel = ["switch"] if engine == "xdp" else []
    topology = star(row_worker.WORKERS, 100e6, servers=2).with_loss(loss)
    with Testbed(topology, name=name, loss_seed=5, in_kernel=in_kernel) as bed:
        run = Run(bed, engine, tree=tree)
        with run.daemons:
            run.begin(pause_s=pause_s)
            harm(run)
            ends = run.ends()
            is_up = run.daemons.servers[run.switch].process.poll() is None
            return ends, run.status(run.switch) if is_up else {}


def none(_: Run) -> None:
    """Nothing happens."""


def kill_a_server(run: Run) -> None:
    """A server is killed in the midst of the rounds, and begins again from its snapshot."""
    run.await_round()
    time.sleep(0.3)
    run.daemons.kill(1)
    run.daemons.revive(1)


def flood(run: Run) -> None:
    """Strangers, and a worker's own host at another port, say what is no packet, or is forged."""
    random_numbers = random.Random(7)
    host, port = run.address.split(":")
    run.await_round()
    here = inside(run.bed.network.namespaces["w0"], lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    with here:
        for number in range(3000):
            kind = random_numbers.randrange(32)
            # The magic number and version, a kind, and whatever follows.
            body = bytes([0x57, 0x53, 1, kind]) + random_numbers.randbytes(30 + 4 * (number % 90))
            here.sendto(body, (host, int(port)))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("tree", [False, True], ids=["one switch", "a tree"])
@pytest.mark.parametrize(
    "way",
    [{"harm": none}, {"harm": none, "loss": 0.01}, {"harm": kill_a_server, "pause_s": 0.1},
     {"harm": flood, "pause_s": 0.05}],
    ids=["nothing", "loss", "a server that is killed", "hostile packets"],
)  # fmt: skip
def test_rows_have_the_same_bits(engine, tree, way, name):
    ends, status = play(name, engine, **way, tree=tree)
    assert [code for code, _ in ends] == [0] * row_worker.WORKERS, ends
    verdicts = status["jobs"][0]["verdicts"]
    assert (verdicts.get("added", 0) > 0) == (engine == "xdp"), verdicts


@pytest.mark.parametrize("engine", ENGINES)
def test_a_switch_that_is_killed_ends_the_job_by_name(engine, name):
    def kill(run: Run) -> None:
        run.await_round()
        run.daemons.kill(2)
        run.daemons.revive(2)

    ends, _ = play(name, engine, kill, pause_s=0.2)
    assert all(code and "node 2 at" in errors and "was restarted" in errors for code, errors in ends), ends


@pytest.mark.parametrize("engine", ENGINES)
def test_a_root_that_is_killed_ends_the_job_by_name_for_workers_beneath_others_too(engine, name):
    def kill(run: Run) -> None:
        run.await_round()
        run.daemons.kill(2)
        run.daemons.revive(2)

    ends, _ = play(name, engine, kill, tree=True, pause_s=0.2)
    assert all(code and "node 2 at" in errors and "was restarted" in errors for code, errors in ends), ends


@pytest.mark.needs("xdp")
def test_a_switch_with_others_beneath_it_is_not_in_the_kernel(name):
    with Testbed(star(3, servers=2), name=name) as bed:
        file = bed.folder / "job.json"
        file.write_text(Run(bed, "xdp", tree=True).text)
        line = bed.network.command("s0", daemon(file, 2, bed.interfaces("s0")))
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done
    assert "has switches beneath it, whose sums are added in user space" in done.stderr, done.stderr


@pytest.mark.needs("xdp")
def test_jobs_come_and_go_in_the_kernel(name):
    with Testbed(star(row_worker.WORKERS, 100e6, servers=2), name=name, in_kernel=["switch"]) as bed:
        run = Run(bed, "xdp")
        with run.daemons:
            run.begin()
            assert [code for code, _ in run.ends()] == [0] * row_worker.WORKERS
            job = json.loads(run.text)
            long = {**job, "id": 9, "hot": {**job["hot"], "positions": 41}}
            with pytest.raises(ControlError, match="has 41 positions of hot rows, and there is memory for 40"):
                ask(run.socket(2), "add_tables", job=long, quota={})
            for number in range(3):
                ask(run.socket(number), "remove", job=1)
                ask(run.socket(number), "add_tables", job={**job, "id": 2}, quota={})
            run.daemons.job_file.write_text(json.dumps({**job, "id": 2}))
            run.workers.clear()
            run.begin(incarnation=2)
            assert [code for code, _ in run.ends()] == [0] * row_worker.WORKERS
            ask(run.socket(2), "quota", job=2, quota={"bytes_per_second": 1000})


@pytest.mark.parametrize(
    ("number", "options", "says"),
    [
        (0, ["--engine", "xdp", "--interface", "lo"], "is a server of tables"),
        (2, ["--engine", "xdp"], "needs --interface"),
        (2, ["--engine", "tcp"], "choose --engine xdp or udp"),
        (2, ["--interface", "lo"], "leave --interface out"),
        (2, ["--engine", "udp", "--generic"], "leave --generic out"),
    ],
)
def test_an_option_that_cannot_be_honoured_is_an_error(number, options, says, name):
    with Testbed(star(3, servers=2), name=name) as bed:
        file = bed.folder / "job.json"
        file.write_text(Run(bed, "udp").text)
        line = bed.network.command("switch", [*daemon(file, number), *options])
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done
    assert says in done.stderr, done.stderr
