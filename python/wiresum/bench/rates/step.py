"""What workers send when a server's link falls to a third (XAgg, Fig. 21), through the product and over kernel TCP."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wiresum.bench.rates.command import FLOAT32_BYTES, Step
from wiresum.bench.rates.task import Task
from wiresum.bench.result import Result
from wiresum.bench.sending_rates import SendingRates
from wiresum.errors import TestbedError
from wiresum.plan.choices import Engine
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed
from wiresum.testbed.shaping import BURST_BYTES, QUEUE_BYTES
from wiresum.topology.generators.servers import servers

SAMPLE_S = 0.01
"""As in the paper."""
SMOOTHED_SAMPLES = 5
"""Samples of a mean: 10 ms are ten bursts, and hold more or less of them."""
TOLERANCE = 0.05
AIM_S = 0.1
"""Seconds in which a rate should settle."""
WARMUP_ELEMENTS = 262_144
START_S, END_S = 30.0, 60.0
"""Bounds for the processes to start, and to end."""
POLL_S = 0.01
SERVER = "s0"
TC_TIMEOUT_S = 10.0

Samples = list[tuple[float, float]]
"""Seconds and bit/s."""


@dataclass(frozen=True)
class Settling:
    """How a rate followed a bound.

    Attributes:
        reached_s: until a mean of 50 ms was within 5 % first; None if none ever was.
        seconds: until all were, to the end; None if that never came.
        lowest: least sample over the bound.
        lowest_mean: least mean of 50 ms over the bound.
        within: part of the means within 5 %, from 100 ms after the fall.
    """

    reached_s: float | None
    seconds: float | None
    lowest: float
    lowest_mean: float
    within: float


def measure(step: Step, engine: Engine) -> list[Result]:
    """Rates of all workers together over one all-reduce, whose link is narrow for a while.

    Raises:
        TestbedError: a worker failed, or the link cannot be changed.
    """
    topology = servers(workers=step.workers, servers=1, rate_bps=step.wide_bps)
    job = Job(policy="cache", gradient_bytes=FLOAT32_BYTES * step.elements)
    with Testbed(topology, plan(topology, job, PlanOptions(engine=engine)), loopback=False) as bed:
        with SendingRates(bed, bed.workers, SAMPLE_S) as rates:
            began, content = _run(bed, step)
        seconds: float = content["seconds"][0]
        sent = rates.since(began, min(seconds, step.falls_s + step.lasts_s + step.recovers_s))
    return to_results(step, engine, sent, content["growths"])


def to_results(
    step: Step, engine: Engine, sent: dict[str, Samples], growths: list[list[dict[str, int]]]
) -> list[Result]:
    """Milliseconds until the new rate was reached, and until it was kept, which has the samples.

    What never came counts with the whole time that there was.
    """
    together = [(at, sum(sent[worker][i][1] for worker in sent)) for i, (at, _) in enumerate(next(iter(sent.values())))]
    at_last = [sample for sample in together if sample[0] >= step.falls_s + step.lasts_s + step.recovers_s / 2]
    found = settling(together, step.falls_s, step.falls_s + step.lasts_s, step.narrow_bps)
    reached_s, kept_s = (step.lasts_s if at is None else at for at in (found.reached_s, found.seconds))
    carrier = "kernel TCP" if engine == "tcp" else engine
    extra: dict[str, Any] = {
        "engine": engine,
        "settled": found.seconds is not None,
        "lowest_over_bound": found.lowest,
        "lowest_50ms_mean_over_bound": found.lowest_mean,
        "within_5_percent_after_100ms": found.within,
        "recovered_over_bound": _mean(at_last) / step.wide_bps,
        "repetitions": sum(growth.get("repetitions", 0) for rounds in growths for growth in rounds),
        "rates_lowered": sum(growth.get("rates_lowered", 0) for rounds in growths for growth in rounds),
        "sent_bps": {**sent, "all": together},
    }
    return [
        Result(f"new rate reached, {carrier}", "ms", [1e3 * reached_s]),
        Result(f"settling, {carrier}", "ms", [1e3 * kept_s], extra),
    ]


def settling(samples: Samples, falls_s: float, ends_s: float, bound_bps: float) -> Settling:
    """How samples between two moments relate to a bound.

    Example:
        >>> steps = [(t / 100, 300.0 if t < 5 else 100.0) for t in range(40)]
        >>> settling(steps, 0.0, 0.4, 100.0).seconds
        0.05
    """
    during = [(at - falls_s, rate / bound_bps) for at, rate in samples if falls_s <= at < ends_s]
    windows = [during[i : i + SMOOTHED_SAMPLES] for i in range(len(during) - SMOOTHED_SAMPLES + 1)]
    means = [(window[0][0], _mean(window)) for window in windows]
    if not means:
        raise TestbedError("the all-reduce was over before the link fell; make it longer, or the link narrower")
    outside = [i for i, (_, mean) in enumerate(means) if abs(mean - 1) > TOLERANCE]
    first = outside[-1] + 1 if outside else 0
    later = [abs(mean - 1) <= TOLERANCE for at, mean in means if at >= AIM_S] or [False]
    return Settling(
        reached_s=next((at for at, mean in means if abs(mean - 1) <= TOLERANCE), None),
        seconds=means[first][0] if first < len(means) else None,
        lowest=min(rate for _, rate in during),
        lowest_mean=min(mean for _, mean in means),
        within=sum(later) / len(later),
    )


def _mean(samples: Sequence[tuple[float, float]]) -> float:
    """0 where nothing was sent any more."""
    return sum(rate for _, rate in samples) / max(len(samples), 1)


def _run(bed: Testbed, step: Step) -> tuple[float, dict[str, Any]]:
    """Starts the workers, changes the link at the right moments, and waits for the end: start, and rank 0's view."""
    started, output = Path(bed.folder) / "started", Path(bed.folder) / "rates.json"
    task = Task(step.elements, WARMUP_ELEMENTS, 1, 1, str(started), str(output))
    logs = [Path(bed.folder) / f"rates-{rank}.log" for rank in range(len(bed.workers))]
    processes = []
    for rank, log in enumerate(logs):
        with log.open("wb") as said:
            processes.append(bed.spawn_worker(rank, task.command(), stdin=subprocess.DEVNULL, stdout=said, stderr=said))
    began = _await_start(started, processes, logs)
    changes = (step.falls_s, step.narrow_bps), (step.falls_s + step.lasts_s, step.wide_bps)
    _change_link(bed, [(began + at_s, rate_bps) for at_s, rate_bps in changes])
    for rank, process in enumerate(processes):
        if process.wait(timeout=END_S):
            raise TestbedError(f"worker {rank} failed: {_end_of(logs[rank])}")
    content: dict[str, Any] = json.loads(output.read_text())
    return began, content


def _await_start(started: Path, processes: list[subprocess.Popen[bytes]], logs: list[Path]) -> float:
    deadline = time.monotonic() + START_S
    while not (started.exists() and (line := started.read_text()).endswith("\n")):
        ended = [rank for rank, process in enumerate(processes) if process.poll() is not None]
        if ended or time.monotonic() > deadline:
            raise TestbedError(
                f"the workers do not begin; rank {(ended or [0])[0]}: {_end_of(logs[(ended or [0])[0]])}"
            )
        time.sleep(POLL_S)
    return float(line)


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-1000:] or "it said nothing"


def _change_link(bed: Testbed, changes: Sequence[tuple[float, float]]) -> None:
    """Changes what the server's link carries towards it at moments of the monotonic clock.

    One tc waits for its lines, as starting it would take longer than what is to be seen.
    """
    node, device = bed.network.shaper(SERVER, towards=SERVER)
    tc = bed.spawn(node, ["tc", "-batch", "-"], stdin=subprocess.PIPE)
    if tc.stdin is None:
        raise TestbedError("tc has no standard input")
    with tc.stdin as lines:
        for at, rate_bps in changes:
            time.sleep(max(0.0, at - time.monotonic()))
            limit = f"tbf rate {round(rate_bps)}bit burst {BURST_BYTES} limit {QUEUE_BYTES}"
            lines.write(f"qdisc change dev {device} root handle 1: {limit}\n".encode())
            lines.flush()
    if tc.wait(timeout=TC_TIMEOUT_S):
        raise TestbedError("tc refuses to change the rate of the server's link; its message is above")
