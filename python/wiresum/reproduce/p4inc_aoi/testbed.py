"""§VII-B, Figs. 6 and 7: 10 to 60 jobs that come at random to a testbed of four racks, simulated in full, and live."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from wiresum.bench.result import Report, Result
from wiresum.reproduce.p4inc_aoi import printed, schemes, throughput
from wiresum.reproduce.p4inc_aoi.schemes import SCHEMES, SETUPS, Instance, Progress, Scheme, arriving, saved
from wiresum.reproduce.row import Benchmark, Figure, Reports, Row
from wiresum.reproduce.words import less, listed
from wiresum.sim.run import run_instance
from wiresum.workload.instance import FORMAT

SLOT_S, DARK_S = 1.0, 0.02
PORTS = 8
"""32 ports of the OXC for four racks."""
PLACES = 4
SERVERS = 4
GPU_RACKS, CPU_RACKS = ("gpu1", "gpu2"), ("cpu1", "cpu2")
SPLIT = 0.5
"""Share of the jobs of four workers whose rack has not four GPUs left; servers and jobs are placed by their owners."""
DECLARED_SPLIT = 0.25
TORN_DOWN = {
    **SCHEMES,
    "noINC-FCFS": Scheme("fcfs", False, {"keep_circuits": False}),
    "INC-FCFS": Scheme("fcfs", True, {"keep_circuits": False}),
}
"""A reading that comes close to Fig. 6: circuits go with FCFS's jobs, and fewer jobs are in two racks."""
ITERATIONS = 20
"""Iterations of a job; the paper does not say."""
SEEDS, QUICK_SEEDS = (1, 2, 3), (1,)
JCT = "total JCT"
FCFS_VARIANTS = {
    "blocking" if blocking else "overtaking": {
        "kept" if kept else "torn down": {"blocking": blocking, "keep_circuits": kept} for kept in (True, False)
    }
    for blocking in (False, True)
}


def cycle_s(model: str, workers: int, *, by_switch: bool) -> float:
    """Seconds of an iteration by Fig. 5's model: computing, then gradients to the server's host, or to the switch.

    Args:
        model: its name.
        workers: of the job.
        by_switch: whether the switch sums.
    """
    constants = throughput.fit()
    bits = 8 * printed.MODEL_BYTES[model]
    sending_s = bits / throughput.LINK_BPS if by_switch else workers * bits / constants.host_bps
    return constants.compute_s(model) + sending_s


def instance(model: str, jobs: int, seed: int, sums: bool, split: float = SPLIT) -> Instance:
    """Jobs of two or four workers in the GPU racks, in one where it has room, with servers in the CPU racks.

    A worker's rate is that of its gradients over whole iterations, computing included. A rack's switch passes what four
    workers at the jobs' mean rate send, as a GPU has one worker at a time: that makes jobs wait for GPUs.

    Args:
        model: its name.
        jobs: how many come, one a second on average.
        seed: of all of it.
        sums: whether switches sum jobs whose workers are in one rack.
        split: share of the jobs of four workers that have two of them in each rack.
    """
    chance = random.Random(f"{model} {jobs} {seed}")
    total = ITERATIONS * printed.MODEL_BYTES[model]
    made, sent, busy_s = [], 0.0, 0.0
    for number in range(1, jobs + 1):
        workers = chance.choice((2, SERVERS))
        home, other = chance.sample(GPU_RACKS, 2)
        is_split = workers == SERVERS and chance.random() < split
        seconds = ITERATIONS * cycle_s(model, workers, by_switch=sums and not is_split)
        star = {
            "workers": {home: 2, other: 2} if is_split else {home: workers},
            "server": chance.choice(CPU_RACKS),
            "bytes": total,
            "host_bps": 8 * total / seconds,
        }
        made.append({"id": number, "traffic": {"star": star}})
        sent, busy_s = sent + workers * total, busy_s + workers * seconds
    gpus_bps = SERVERS * 8 * sent / busy_s
    rack = {"ports": PORTS, "places": PLACES}
    document = {
        "format": FORMAT,
        "slot_s": SLOT_S,
        "dark_s": DARK_S,
        "port_bps": throughput.LINK_BPS,
        "host_bps": throughput.LINK_BPS,
        "units": [{"name": name, "switch_bps": 2 * gpus_bps, **rack} for name in GPU_RACKS]
        + [{"name": name, "switch_bps": 2 * SERVERS * throughput.LINK_BPS, **rack} for name in CPU_RACKS],
        "server_bps": throughput.LINK_BPS,
        "jobs": made,
    }
    return arriving(document, 1 / SLOT_S, seed)


def _measure(quick: bool, progress: Progress) -> Report:
    return Report("testbed", {"iterations": ITERATIONS}, _all({**SCHEMES, **_variants()}, SPLIT, quick, progress))


def _measure_declared(quick: bool, progress: Progress) -> Report:
    return Report("torn-down", {"iterations": ITERATIONS}, _all(TORN_DOWN, DECLARED_SPLIT, quick, progress))


def _all(by_name: Mapping[str, Scheme], split: float, quick: bool, progress: Progress) -> list[Result]:
    results = []
    for model, name in printed.NAMES.items():
        for jobs in printed.TESTBED_JOBS[:2] if quick else printed.TESTBED_JOBS:
            progress(f"{name}, {jobs} jobs")
            for scheme, by in by_name.items():
                seeds = QUICK_SEEDS if quick else SEEDS
                instances = [instance(model, jobs, seed, by.sums, split) for seed in seeds]
                known = {"scheme": scheme, "case": f"{name} {jobs}", "model": model}
                results.extend(_runs(instances, by, known))
    return results


def _variants() -> dict[str, Scheme]:
    """FCFS as it can also be read."""
    return {
        f"{'' if sums else 'no'}INC-FCFS, {order}, {circuits}": Scheme("fcfs", sums, options)
        for sums in (False, True)
        for order, kinds in FCFS_VARIANTS.items()
        for circuits, options in kinds.items()
    }


def _runs(instances: list[Instance], by: Scheme, known: Mapping[str, str]) -> list[Result]:
    outcomes = [run_instance(one, by.scheduler, sums=by.sums, **by.options) for one in instances]
    setups = [float(outcome.totals["setups"]) for outcome in outcomes]
    totals = [sum(record["end_s"] - record["begin_s"] for record in outcome.rounds) for outcome in outcomes]
    name = f"{known['scheme']}, {known['case']}"
    return [
        Result(f"{name}: {SETUPS}", SETUPS, setups, {"what": SETUPS, **known}),
        Result(f"{name}: {JCT}", "s", totals, {"what": JCT, **known}),
    ]


def _of(report: Report, model: str, names: tuple[str, ...] = tuple(SCHEMES)) -> Report:
    found = [one for one in report.results if one.extra["model"] == model and one.extra["scheme"] in names]
    return Report(report.benchmark, report.parameters, found)


def _setups(reports: Reports) -> str:
    report = reports.report("testbed")
    said = []
    for model, name in printed.NAMES.items():
        said.append(f"{name}: {schemes.compared(_of(report, model), SETUPS)}")
    kinds = {name: statistics.fmean(schemes.values(report, name, SETUPS).values()) for name in _variants()}
    shown = listed({name: f"{value:.0f}" for name, value in kinds.items()})
    torn = reports.report("torn-down")
    declared = "; ".join(
        f"{name}: {schemes.compared(_of(torn, model), SETUPS)}" for model, name in printed.NAMES.items()
    )
    return (
        f"simulated, {'; '.join(said)}; readings of FCFS, mean set-ups: {shown}; where FCFS tears circuits down and "
        f"{100 * DECLARED_SPLIT:.0f} % of the jobs of four workers are in two racks (calibration, no finding), "
        f"{declared}; {_live(reports, SETUPS)}"
    )


def _jct(reports: Reports) -> str:
    report = reports.report("testbed")
    said = [f"{name}: {schemes.compared(_of(report, model), JCT)}" for model, name in printed.NAMES.items()]
    assumed = f"{ITERATIONS} iterations a job, Fig. 5's computing and server, eight GPUs"
    return f"simulated, {'; '.join(said)} ({assumed}); {_live(reports, JCT)}"


def _live(reports: Reports, what: str) -> str:
    """Every scheme's values, beside those that were simulated of the same jobs over the same network."""
    report = reports.report("scaled-testbed")
    cases = list(dict.fromkeys(one.extra["case"] for one in report.results))
    shown: dict[str, list[str]] = {}
    for one in report.results:
        if one.extra["what"] == what:
            shown.setdefault(one.extra["scheme"], []).append(f"{one.median:.0f} ({one.extra['simulated']:.0f})")
    found = listed({scheme: "/".join(values) for scheme, values in shown.items()})
    return f"live at 1:{report.parameters['scale']} (simulated of the same), {'/'.join(cases)} jobs: {found}"


def _abstract(reports: Reports) -> str:
    report = reports.report("testbed")
    return listed({name: saved(_of(report, model), JCT, "INC-TW", "noINC-TW") for model, name in printed.NAMES.items()})


def _consistent() -> str:
    """The fourth reduction from the other three."""
    pairs = {"ResNet50": (0.3357, 0.1234, 0.2962), "VGG16": (0.4396, 0.127, 0.32)}
    fourth = {
        name: less(1 - (1 - inc) * (1 - with_inc) / (1 - without), 2)
        for name, (inc, without, with_inc) in pairs.items()
    }
    return f"INC-TW vs noINC-TW from the other three: {listed(fourth)}"


def draw(report: Report, path: Path, what: str) -> None:
    """One quantity of the five schemes, both models, by number of jobs.

    Raises:
        SupportError: matplotlib is not installed.
    """
    shown = [one for one in report.results if one.extra["what"] == what and one.extra["scheme"] in SCHEMES]
    schemes.draw(Report(report.benchmark, report.parameters, shown), path, "model and number of jobs")


def _measure_live(quick: bool, progress: Progress) -> Report:
    from wiresum.reproduce.p4inc_aoi.scaled import measure_jobs

    return measure_jobs(quick, progress)


BENCHMARKS = {
    "testbed": Benchmark(
        "wiresum reproduce p4inc-aoi --rows A2,A3", 20, 5, _measure, "four racks of four servers at 40 Gbit/s, as flows"
    ),
    "torn-down": Benchmark(
        "wiresum reproduce p4inc-aoi --rows A2",
        10,
        3,
        _measure_declared,
        "as `testbed`, where FCFS tears circuits down",
    ),
    "scaled-testbed": Benchmark(
        "wiresum reproduce p4inc-aoi --rows A2,A3",
        3000,
        600,
        _measure_live,
        "four racks of four servers at 50 Mbit/s in namespaces, an emulated circuit switch",
    ),
}
FIGURES = (
    Figure("Fig. 6", "fig-6-reconfigurations.png", "testbed", partial(draw, what=SETUPS)),
    Figure("Fig. 7", "fig-7-jct.png", "testbed", partial(draw, what=JCT)),
)
ROWS = (
    Row(
        "A2", "AOI reconfigurations (connections): 10 to 60 jobs on the testbed", "A", "§VII-B, Fig. 6",
        "INC −48.8 % on average; TW −47.5 % against FCFS", measured=_setups,
        needs=("testbed", "torn-down", "scaled-testbed"),
    ),
    Row(
        "A3", "total JCT: 10 to 60 jobs on the testbed", "A", "§VII-B, Fig. 7",
        "INC: FCFS −33.57 % (ResNet50), −43.96 % (VGG16); TW −46.66, −56.34 %; TW against FCFS: −12.34, −12.7 % "
        "without INC, −29.62, −32.0 % with it", recomputed=_consistent, measured=_jct,
        needs=("testbed", "scaled-testbed"),
    ),
    Row(
        "A11", "the abstract's reductions of JCT by INC", "A", "abstract", "46.66 and 56.34 %: as A3",
        measured=_abstract, needs=("testbed",),
    ),
)  # fmt: skip
