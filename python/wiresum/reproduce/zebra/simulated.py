"""Rounds of rows packet by packet in virtual time, with the machines that run live: on a star with one server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from wiresum.bench.result import Report, Result
from wiresum.reproduce.row import Benchmark, Reports
from wiresum.reproduce.words import times
from wiresum.reproduce.zebra import printed
from wiresum.sim import ScenarioFile, SimulationOutcome, run
from wiresum.topology.generators.star import star
from wiresum.topology.model import Topology

WORKERS, RATE_BPS = printed.WORKERS, 100e6
BATCH, DIMENSION, ROUNDS = 64, 4, 2
"""Neither batches nor dimensions are printed; OA's 150 million rows of 4 float32 take 2.4 GB."""
SCENARIO = """
format = "wiresum-scenario/1"
topology = "topology.json"
[links]
queue_bytes = 1572864
[rows]
"""


def play(rows: Mapping[str, Any], workers: int, loss: float = 0.0) -> SimulationOutcome:
    """Simulates the rounds of a job.

    Args:
        rows: of a scenario: its trace, planner and rounds.
        workers: around the switch.
        loss: share of the packets that each link loses, each way.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rounds.toml"
        star(workers, RATE_BPS, servers=1).write(Path(folder) / "topology.json")
        fields = [
            f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}" for name, value in rows.items()
        ]
        path.write_text(SCENARIO + "\n".join(fields) + "\n", encoding="utf-8")
        return run(ScenarioFile.read(path, {"links.loss": loss}), Topology.read)


def _into_server(outcome: SimulationOutcome) -> float:
    """Bytes that come to the server's link."""
    return float(sum(link["wire_bytes"] for link in outcome.links if link["target"] == "s0"))


def _measure(quick: bool, progress: Callable[[str], None]) -> Report:
    results = []
    for model, hot in printed.HOT_ROWS.items():
        for workers in WORKERS[-1 if quick else 0 :]:
            progress(f"{printed.NAMES[model]}, {workers} workers")
            rows = {"trace": f"{model}:batch={BATCH},dim={DIMENSION}", "planner": "none", "rounds": ROUNDS}
            plain, summed = (_into_server(play({**rows, "summed": count}, workers)) for count in (0, hot))
            extra = {"model": model, "workers": workers}
            results.append(Result(f"{model}, {workers} workers", "×", [plain / summed], extra))
    return Report("simulated", {"batch": BATCH, "rounds": ROUNDS}, results)


def gains(report: Report, workers: int) -> dict[str, float]:
    """By model, how many times fewer bytes reach the server with sums than without, questions for rows included."""
    return {one.extra["model"]: one.median for one in report.results if one.extra["workers"] == workers}


def into_server(reports: Reports) -> str:
    """How many times fewer bytes reach the server with sums."""
    found = gains(reports.report("simulated"), WORKERS[-1])
    each = ", ".join(f"{printed.NAMES[model]} {times(gain)}" for model, gain in found.items())
    return (
        f"simulated in packets, {WORKERS[-1]} workers with {BATCH} samples: to the server's link come {each} fewer "
        "bytes than without sums, questions for rows included"
    )


NETWORK = f"popularity of Fig. 4, {BATCH} samples of 100 lookups a worker, packets in virtual time"
BENCHMARKS = {"simulated": Benchmark("wiresum reproduce zebra --rows Z3", 240, 60, _measure, NETWORK)}
