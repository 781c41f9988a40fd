"""A job's secret is in its file and nowhere else: not in packets, logs, answers, other files, command lines, pictures,
or what commands print.
"""

import base64
import contextlib
import json
import os
import secrets
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wiresum.bench.live.run import Ranks
from wiresum.errors import ControlError
from wiresum.plan.aggregation_plan import AggregationPlan, secret_beside
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.tables import Table
from wiresum.planners import plan as make
from wiresum.planners.fabrics import plan_switched
from wiresum.testbed import Testbed
from wiresum.testbed.tables import SparseJob, daemons
from wiresum.topology.generators.racks import racks
from wiresum.topology.generators.star import star

ELEMENTS = 50_000
ROUNDS = 3
FEWEST_FRAME_BYTES = 1_000_000
"""Seen at the workers of such a job at least: they were listened to."""
LIMIT_S = 60.0
MTU_BYTES = 1500
LISTENER = Path(__file__).with_name("listener.py")


def needles(secret: str) -> dict[str, bytes]:
    """What a secret looks like where somebody has let it slip."""
    raw = bytes.fromhex(secret)
    words = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    return {
        "digits": secret.encode(), "capitals": secret.upper().encode(), "bytes": raw, "reversed": raw[::-1],
        "words": words, "base64": base64.b64encode(raw).rstrip(b"="), "number": str(int(secret, 16)).encode(),
    }  # fmt: skip


def shown(secret: str, content: bytes) -> list[str]:
    """Forms of a secret, or of half of it, that some content has."""
    return [form for form, needle in needles(secret).items() for half in (needle[:16], needle[-16:]) if half in content]


def planned(kind: str, secret: str) -> tuple[object, AggregationPlan, int]:
    """A network, a plan for it and the MTU."""
    job = Job(secret=secret)
    if kind == "switches":
        topology = racks(rate_bps=200e6)
        made = plan_switched(topology.with_addresses(), job, PlanOptions(engine="udp"), "ps")
        return topology, made, job.mtu_bytes
    topology = star(3, 200e6)
    return topology, make(topology, job, PlanOptions(engine=kind)), job.mtu_bytes


@contextlib.contextmanager
def listening(bed: Testbed, folder: Path) -> Iterator[list[Path]]:
    """Files of everything that arrives at workers and leaves them."""
    files, ears = [], []
    for worker in bed.workers:
        files.append(folder / f"{worker}.frames")
        command = [sys.executable, str(LISTENER), str(files[-1])]
        ears.append(bed.spawn(worker, command, stdout=subprocess.PIPE))
        assert ears[-1].stdout.readline()
    yield files
    for ear in ears:
        ear.terminate()
        ear.wait(LIMIT_S)


def command_lines() -> bytes:
    """Command lines of all processes, and the environments of those that may be read."""
    seen = b""
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ") if process.name != str(os.getpid()) else ("cmdline",):
            with contextlib.suppress(OSError):
                seen += (process / name).read_bytes()
    return seen


def answers(bed: Testbed, made: AggregationPlan) -> bytes:
    """What daemons say to clients of their control sockets."""
    daemons = [bed.deployment.daemon(node.name) for node in made.nodes]
    asked = [daemon.ask(request) for daemon in daemons for request in ("status", "metrics")]
    with pytest.raises(ControlError) as refused:
        daemons[0].ask("add", plan=json.loads(made.to_json()))
    return json.dumps([*asked, str(refused.value)]).encode()


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize("kind", [pytest.param("xdp", marks=pytest.mark.needs("xdp")), "udp", "tcp", "switches"])
def test_a_secret_is_nowhere_but_in_its_file(kind: str, name: str, tmp_path: Path) -> None:
    secret = secrets.token_hex(32)
    topology, made, mtu = planned(kind, secret)
    with Testbed(topology, made, name=name, mtu_bytes=mtu, loopback=False) as bed, listening(bed, tmp_path) as frames:
        with Ranks(bed) as ranks:
            for _ in range(ROUNDS):
                ranks.sum(ELEMENTS)
            places = {"command lines": command_lines(), "answers": answers(bed, made)}
        bed.deployment.stop()
        files = [file for file in bed.folder.rglob("*") if file.is_file()]
        kept = [file for file in files if shown(secret, file.read_bytes())]
        assert kept == [secret_beside(bed.plan_file)], "the secret is in its file, and in no log"
        assert stat.S_IMODE(kept[0].stat().st_mode) == 0o600
        places |= {str(file): file.read_bytes() for file in frames}
    assert sum(len(places[str(file)]) for file in frames) > FEWEST_FRAME_BYTES
    assert {place: shown(secret, content) for place, content in places.items() if shown(secret, content)} == {}


def test_a_sparse_jobs_secret_is_nowhere_but_in_its_file(name: str) -> None:
    job = SparseJob([Table(name="users", rows=100, dimension=8, features=["user"])], None)
    with Testbed(star(2), name=name, loopback=True) as bed, daemons(bed, job, MTU_BYTES) as served:
        secret = json.loads(served.job_file.read_text())["secret"]
        assert shown(secret, command_lines()) == []
        files = [file for file in bed.folder.rglob("*") if file.is_file()]
        assert [file for file in files if shown(secret, file.read_bytes())] == [served.job_file]
        assert stat.S_IMODE(served.job_file.stat().st_mode) == 0o600


def test_a_secret_is_in_no_picture_and_no_answer_of_a_command(tmp_path: Path) -> None:
    file, picture = tmp_path / "plan.json", tmp_path / "plan.svg"
    said = b""
    for line in (
        ["plan", "racks", "--planner", "goat", "-o", str(file), "--plot", str(picture), "--explain"],
        ["explain", str(file)],
        ["explain", str(file), "--json"],
        ["keys", str(file), "--node", "0"],
        ["keys", str(file), "--node", "99"],
    ):
        command = [sys.executable, "-m", "wiresum", *line]
        done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=False)
        said += done.stdout + done.stderr
    content = secret_beside(file).read_bytes()
    secret = content.decode().strip()
    assert shown(secret, content), "what is searched for would be found"
    assert shown(secret, said + file.read_bytes() + picture.read_bytes()) == []
