"""§VII-C, Fig. 9: coflows of Facebook's trace, which `--data-dir` has, or made ones of its format."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from wiresum.bench.coflows.trace import read
from wiresum.bench.result import Report
from wiresum.reproduce.p4inc_aoi import printed
from wiresum.reproduce.p4inc_aoi.schemes import (
    BLOCKING,
    COMPLETION,
    SCHEMES,
    SETUPS,
    Instance,
    Progress,
    arriving,
    draw,
    saved,
    series,
    sweep,
)
from wiresum.reproduce.row import Benchmark, Figure, Reports, Row
from wiresum.topology.generators.optical import optical
from wiresum.workload.instance import instance

JOBS, QUICK_JOBS = (100, 200, 300, 400, 500), (20,)
UNITS, QUICK_UNITS = printed.UNITS, 8
NAMED = {
    "noINC-FCFS": BLOCKING["noINC-FCFS"],
    "FCFS, overtaking": SCHEMES["noINC-FCFS"],
    "noINC-TW": SCHEMES["noINC-TW"],
}


def _measure(quick: bool, progress: Progress, data_dir: Path | None = None) -> Report:
    network = optical(QUICK_UNITS if quick else UNITS, printed.SERVERS_A_UNIT, ports=printed.PORTS)
    units = [node.name for node in network.nodes if node.kind == "switch"]
    source, workload = read(data_dir, units)

    def make(jobs: int, seed: int) -> Instance:
        chosen = workload.model_copy(update={"jobs": workload.jobs[:jobs]}).as_batch()
        document = instance(network, chosen, 1.0, paper=True)
        return arriving({**document, "before": "even"}, printed.PER_SLOT, seed)

    cases = {str(jobs): partial(make, jobs) for jobs in (QUICK_JOBS if quick else JOBS)}
    report = sweep("mapreduce", cases, (1,), progress, NAMED)
    return Report(report.benchmark, {**report.parameters, "source": source}, report.results)


def _said(reports: Reports) -> str:
    report = reports.report("mapreduce")
    return (
        f"{report.parameters['source']}, TW against FCFS that blocks: set-ups "
        f"{saved(report, SETUPS, 'noINC-TW', 'noINC-FCFS')}, completion "
        f"{saved(report, COMPLETION, 'noINC-TW', 'noINC-FCFS')}; set-ups {series(report, SETUPS)}; completion "
        f"{series(report, COMPLETION, 's')}; shuffles are not sums, so INC changes nothing"
    )


BENCHMARKS = {
    "mapreduce": Benchmark(
        "wiresum reproduce p4inc-aoi --rows A9", 300, 5, _measure, "64 units of 24 ports, planned slot by slot",
        reads_data=True,
    )
}  # fmt: skip
FIGURES = (Figure("Fig. 9", "fig-9-mapreduce.png", "mapreduce", partial(draw, axis="MapReduce jobs")),)
ROWS = (
    Row(
        "A9", "MapReduce jobs of Facebook's trace: AOI reconfigurations and CT-BTI", "A", "§VII-C, Fig. 9",
        "INC-TW against noINC-FCFS: AOI −89.5 %, CT-BTI −72.6 %",
        recomputed=lambda: "the trace has 526 coflows, the text says 500; it does not say what is summed of a shuffle",
        measured=_said, needs=("mapreduce",),
    ),
)  # fmt: skip
