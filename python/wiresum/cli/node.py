"""`wiresum node`: jobs of a running daemon."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiresum.commandline.console import note, out, print_json
from wiresum.commandline.contents import Contents, Section
from wiresum.commandline.options import JsonOption, SecretOption
from wiresum.commandline.quantities import parse_rate, parse_size
from wiresum.commandline.tables import figures

if TYPE_CHECKING:
    from rich.table import Table

BITS_PER_BYTE = 8
SEATS = "seats: taken of planned, by child and stream"


class Orders(Contents):
    """Orders to a daemon; who wants to start one is told how."""

    instead = "; to start a daemon, write `wiresum-node --plan PLAN --node ID`"


app = Section("Jobs of a running daemon: add, remove, bound, watch.", Orders)

NodeOption = Annotated[int, typer.Option("--node", help="Node whose daemon on this machine is asked")]
SocketOption = Annotated[
    Path | None,
    typer.Option("--socket", "--control", help="Control socket of the daemon [default: /run/wiresum/node-ID.sock]"),
]
MemoryOption = Annotated[
    str | None, typer.Option("--memory", help="Slot memory, or rows, that the job may take, as 64MB")
]
RateOption = Annotated[
    str | None, typer.Option("--rate", help="Rate that the job's workers may send at together, as 2gbit")
]
JobArgument = Annotated[int, typer.Argument(metavar="JOB", help="Number of the job")]


@app.command(epilog="Example: `wiresum node add plan.json --rate 2gbit`")
def add(
    plan: Annotated[Path, typer.Argument(metavar="FILE", help="Plan of the job, or file of a sparse job")],
    memory: MemoryOption = None,
    rate: RateOption = None,
    secret: SecretOption = None,
    node: NodeOption = 0,
    socket: SocketOption = None,
) -> None:
    """Serve one more job, if it fits."""
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.sparse.job import read_sparse_job

    bounds, job = quota(memory, rate), read_sparse_job(plan)
    if job is not None:
        answer = _ask(socket, node, "add_tables", job=job, quota=bounds)
    else:
        read = AggregationPlan.read(plan, secret)
        content = json.loads(read.held_by(_ask(socket, node, "status")["node"]).to_json())
        answer = _ask(socket, node, "add", plan=content, quota=bounds)
    note(f"job {answer['job']} is served, with {answer['memory_bytes']} bytes of memory")


@app.command(epilog="Example: `wiresum node remove 7`")
def remove(job: JobArgument, node: NodeOption = 0, socket: SocketOption = None) -> None:
    """Serve a job no more; its workers get errors."""
    _ask(socket, node, "remove", job=job)
    note(f"job {job} is served no more")


@app.command("quota", epilog="Example: `wiresum node quota 7 --rate 2gbit`")
def set_quota(
    job: JobArgument,
    memory: MemoryOption = None,
    rate: RateOption = None,
    node: NodeOption = 0,
    socket: SocketOption = None,
) -> None:
    """Bound a job anew; what is left out is lifted."""
    _ask(socket, node, "quota", job=job, quota=quota(memory, rate))


@app.command(epilog="Example: `wiresum node upgrade`")
def upgrade(node: NodeOption = 0, socket: SocketOption = None) -> None:
    """Have the binary that is installed now take over from the running daemon; no round is lost."""
    from wiresum.deploy import control

    process = control.upgrade(socket or control.default_socket(node))
    note(f"process {process} serves node {node} now")


@app.command("list", epilog="Example: `wiresum node list`")
def list_jobs(node: NodeOption = 0, socket: SocketOption = None) -> None:
    """Numbers of the jobs that are served, one on a line."""
    for job in _ask(socket, node, "status")["jobs"]:
        print(job["job"])


@app.command(epilog="Example: `wiresum node status --interval 2`")
def status(
    node: NodeOption = 0,
    socket: SocketOption = None,
    interval: Annotated[float, typer.Option("--interval", min=0.1, help="Seconds over which rates are measured")] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Show jobs, seats that are taken, memory, rates and what became of packets. A child has a seat for each stream."""
    first = _ask(socket, node, "status")
    if as_json:
        print_json(first)
        return
    time.sleep(interval)
    out().print(table(first, _ask(socket, node, "status")))


@app.command(epilog="Example: `wiresum node tables --node 1`")
def tables(node: NodeOption = 0, socket: SocketOption = None, as_json: JsonOption = False) -> None:
    """Rows, memory, hot map and snapshots of sparse jobs."""
    jobs = [_tables(job) for job in _ask(socket, node, "status")["jobs"] if job["tables"]]
    if as_json:
        print_json({"node": node, "jobs": jobs})
        return
    out().print(tables_table(node, jobs))


@app.command(epilog="Example: `wiresum node metrics`")
def metrics(node: NodeOption = 0, socket: SocketOption = None) -> None:
    """The counters as Prometheus reads them."""
    print(_ask(socket, node, "metrics")["text"], end="")


def quota(memory: str | None, rate: str | None) -> dict[str, int]:
    """The fields of a quota; what is not bounded is left out."""
    bounds = {}
    if memory is not None:
        bounds["memory_bytes"] = parse_size(memory)
    rate_bps = parse_rate(rate) if rate is not None else None
    if rate_bps is not None:
        bounds["bytes_per_second"] = round(rate_bps / BITS_PER_BYTE)
    return bounds


def table(before: dict[str, Any], after: dict[str, Any]) -> Table:
    """One row for each job, with rates from two statuses."""
    from wiresum.deploy.load import loads

    headings = ("job", "seats", "memory", "rate", "quota", "summed", "over quota", "dropped")
    title = f"node {after['node']}, {after['engine']} at {after['listen']}"
    rows = figures(headings, box=None, title=title, title_justify="left", caption=SEATS, caption_justify="left")
    for load in loads(before, after):
        rows.add_row(
            str(load.job),
            f"{load.members} of {load.expected_members}",
            f"{load.memory_bytes / 1e6:.1f} MB",
            megabits(load.rate_bps),
            "none" if load.quota_bps is None else megabits(load.quota_bps),
            str(load.sums),
            str(load.over_quota),
            str(load.dropped),
        )
    return rows


def _tables(job: dict[str, Any]) -> dict[str, Any]:
    """What a status has of a sparse job. Coverage is the share of gradients since the start that were of hot rows."""
    tables = job["tables"]
    gradients = tables["hot_gradients"] + tables["cold_gradients"]
    return {
        "job": job["job"],
        "memory_bytes": job["memory_bytes"],
        **{name: tables[name] for name in ("rows", "rounds", "map_version", "rows_lent", "rows_returning")},
        "coverage": tables["hot_gradients"] / gradients if gradients else None,
        "snapshot_of_round": tables["restorable"],
        "snapshot_age_s": tables["snapshot_age_ms"] / 1e3 if "snapshot_age_ms" in tables else None,
    }


def tables_table(node: int, jobs: list[dict[str, Any]]) -> Table:
    """One column for each sparse job."""
    headings = ("job", *(str(job["job"]) for job in jobs))
    rows = figures(headings, ("job",), box=None, title=f"node {node}: tables", title_justify="left")
    facts = {
        "rows": lambda job: str(job["rows"]),
        "memory": lambda job: f"{job['memory_bytes'] / 1e6:.1f} MB",
        "rounds": lambda job: str(job["rounds"]),
        "hot map": lambda job: f"version {job['map_version']}",
        "gradients of hot rows": lambda job: "none" if job["coverage"] is None else f"{job['coverage']:.1%}",
        "rows lent to workers": lambda job: str(job["rows_lent"]),
        "rows told to return": lambda job: str(job["rows_returning"]),
        "snapshot": lambda job: f"round {job['snapshot_of_round']}",
        "age of the snapshot": lambda job: "none" if (age := job["snapshot_age_s"]) is None else f"{age:.1f} s",
    }
    for name, fact in facts.items():
        rows.add_row(name, *map(fact, jobs))
    return rows


def megabits(rate_bps: float) -> str:
    """A rate for people."""
    return f"{rate_bps / 1e6:.1f} Mbit/s"


def _ask(socket: Path | None, node: int, order: str, **fields: Any) -> dict[str, Any]:
    from wiresum.deploy import control

    return control.ask(socket or control.default_socket(node), order, **fields)
