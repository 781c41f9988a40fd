"""One rank of `wiresum bench sparse`, or one server of a rival: the loops are native, so that many fit few cores."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from wiresum.bench.task import RankTask

PRODUCT = "wiresum"
ZEBRA = "zebra"
"""The product's programs in the paper's flow: sums go to the servers, which answer every worker."""
PUSH_PULL = "push_pull"
POOL = "pool"
"""The whole tables as one dense tensor; `pool.py` has its ranks."""


@dataclass(frozen=True)
class Task(RankTask):
    """What to do.

    Attributes:
        method: whose worker this is; `serve`: the rival's server.
        job: path of the job's file.
        number: rank, or number of the server.
        incarnation: of the job.
        touched: path of what the worker touches: for each round and table its rows.
    """

    method: str
    job: str
    number: int
    incarnation: int = 0
    touched: str = ""


def rival(job: Path, number: int) -> list[str]:
    """The command line of a server of the rival `push_pull`."""
    return Task("serve", str(job), number).command()


def main(task: Task) -> None:
    """Does the task; a worker's answer is one JSON object on stdout."""
    from wiresum import _native

    job = Path(task.job).read_text(encoding="utf-8")
    if task.method == "serve":
        print("ready", flush=True)
        _native.bench_push_pull_server(job, task.number)
        return
    touched = json.loads(Path(task.touched).read_text(encoding="utf-8"))
    if task.method in (PRODUCT, ZEBRA):
        seconds, sent = _native.bench_sparse_worker(job, task.number, task.incarnation, touched)
        cpu_seconds = sent.pop("cpu_seconds")
    else:
        before = time.process_time()
        seconds, sent = _native.bench_push_pull_worker(job, touched), {}
        cpu_seconds = time.process_time() - before
    print(json.dumps({"seconds": seconds, "sent": sent, "cpu_seconds": cpu_seconds}))


if __name__ == "__main__":
    main(Task.told())
