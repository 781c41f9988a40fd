"""`wiresum bench turns`: what turns cost over an emulated circuit switch.

Three questions. *Pauses*: a job sums over a circuit that goes and comes back. Announced, its gates are shut before; the
pause is from the order to shut them until they open, and nothing may meet darkness. Unannounced, the circuit is taken
away and given back under the job; its pause is what the sum took longer than undisturbed. *Slots*: how long after they
were due intervals began; where circuits are set up, after the darkness that the schedule has counted. *Gates*: an
all-reduce through an open gate beside the same without one, in turns, one after the other.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable

from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.turns.command import Options
from wiresum.circuits.control import apply, wait_for_light
from wiresum.circuits.drivers import connect
from wiresum.errors import TestbedError
from wiresum.plan.schedule import Schedule
from wiresum.schedule import schedule as ask
from wiresum.topology.generators.optical import optical
from wiresum.topology.model import Topology
from wiresum.topology.optical import Circuit
from wiresum.turns.live import TurnsBed, run_ranks
from wiresum.turns.plans import as_schedule, carried
from wiresum.turns.stage import Step
from wiresum.workload.instance import instance
from wiresum.workload.model import Workload

Times = list[tuple[float, float | None, list[Circuit]]]
"""From when until when which circuits are lit."""
SLOT_S = 1.0
CASES = ("announced", "unannounced", "slots late, no set-up", "slots late, beyond darkness", "gate", "no gate")
BEFORE_S, GONE_S = 0.2, 0.1
"""The circuit goes so long after the start, and comes back so much later."""


def measure(options: Options, progress: Callable[[str], None] = lambda line: None) -> Report:
    """Measures pauses, slots and gates.

    Args:
        options: what to measure.
        progress: takes a line about what is going on.

    Raises:
        TestbedError: no namespaces, or a sum is wrong.
    """
    cases: dict[str, list[float]] = {name: [] for name in CASES}
    dark = 0
    for run in range(1, options.runs + 1):
        progress(f"run {run} of {options.runs}")
        steps, met_darkness = announced(options)
        dark += met_darkness
        cases["announced"] += [step.begin_s - step.shut_s for step in steps if step.paused and step.added]
        for step in steps:
            counted_s = options.dark_s + options.settle_s if step.added else 0.0
            case = "slots late, beyond darkness" if step.added else "slots late, no set-up"
            cases[case].append(step.begin_s - step.due_s - counted_s)
        cases["unannounced"].append(unannounced(options) - undisturbed(options))
        for name, rate_bps in (("gate", options.rate_bps), ("no gate", None)):
            cases[name].append(gated(options, rate_bps))
    results = [Result(name, "s", seconds) for name, seconds in cases.items()]
    cost = statistics.median(cases["gate"]) / statistics.median(cases["no gate"])
    allowed = statistics.median(cases["announced"]) - options.dark_s - options.settle_s
    notes = [f"{dark} frames met announced darkness", f"beyond dark + settle, an announced pause takes {allowed:.4f} s"]
    return Report("turns", vars(options), results, [Ratio("all-reduce through a gate / without", cost)], notes=notes)


def announced(options: Options) -> tuple[list[Step], int]:
    """What was seen of each interval, and frames that met darkness, where the schedule takes a circuit and gives it."""
    topology, workload, made = _far(options, options.size_bytes)
    lit = made.intervals[0].circuits
    times: Times = [(0.0, BEFORE_S, lit), (BEFORE_S, BEFORE_S + GONE_S, []), (BEFORE_S + GONE_S, None, lit)]
    with TurnsBed(topology, _with(made, times, options), options.protocol) as bed:
        live, _ = run_ranks(bed, workload)
        switch = bed.bed.optical_switch("oxc")
        dark = sum(switch.light.count(port).dark for port in switch.device.crossbar.sides)
    return live.seen.steps, dark


def undisturbed(options: Options) -> float:
    """Seconds of a sum while nothing changes."""
    return _far_seconds(options, disturb=False)


def unannounced(options: Options) -> float:
    """Seconds of a sum whose circuit goes and comes back, which nobody has told its ranks."""
    return _far_seconds(options, disturb=True)


def gated(options: Options, rate_bps: float | None) -> float:
    """Seconds of an all-reduce of one rack, through a gate with this rate or with none."""
    topology = optical(1, 2, 1, ports=1, rate_bps=options.rate_bps)
    workload = _workload({"u0": 2}, "u0", options.large_bytes)
    made = _scheduled(topology, workload)
    first = made.intervals[0]
    rates = {} if rate_bps is None else dict.fromkeys(first.plans, rate_bps)
    whole = first.model_copy(update={"until_s": None, "rates_bps": rates})
    with TurnsBed(topology, made.model_copy(update={"intervals": [whole]}), options.protocol) as bed:
        return _seconds(bed, workload)


def _far_seconds(options: Options, *, disturb: bool) -> float:
    topology, workload, made = _far(options, options.size_bytes)
    lit = made.intervals[0].circuits
    with TurnsBed(topology, _with(made, [(0.0, None, lit)], options), options.protocol) as bed:
        thread = threading.Thread(target=_take_and_give_back, args=(bed,))
        if disturb:
            thread.start()
        seconds = _seconds(bed, workload)
        if disturb:
            thread.join()
    return seconds


def _take_and_give_back(bed: TurnsBed) -> None:
    switch = bed.bed.optical_switch("oxc")
    device = connect(switch.serve(bed.protocol))
    bed.gates.await_ranks({job: len(plan.workers) for job, plan in bed.plans.items()}, SLOT_S * 60)
    while not switch.device.crossbar.beams:
        time.sleep(BEFORE_S / 100)
    time.sleep(BEFORE_S)
    lit, owned = device.read().pairs, list(switch.device.crossbar.sides)
    apply(device, [], owned)
    time.sleep(GONE_S)
    apply(device, lit, owned)
    wait_for_light(device, lit)
    device.close()


def _far(options: Options, size_bytes: int) -> tuple[Topology, Workload, Schedule]:
    """A job of one worker whose server is in the other unit."""
    dark_s, settle_s = options.dark_s, options.settle_s
    topology = optical(2, 1, 1, ports=1, rate_bps=options.rate_bps, dark_s=dark_s, settle_s=settle_s)
    workload = _workload({"u0": 1}, "u1", size_bytes)
    return topology, workload, _scheduled(topology, workload, sums=False)


def _workload(workers: dict[str, int], server: str, size_bytes: int) -> Workload:
    job = {"name": "job", "workers": workers, "server": server, "bytes": size_bytes}
    return Workload.model_validate({"name": "bench", "jobs": [job]})


def _scheduled(topology: Topology, workload: Workload, *, sums: bool = True) -> Schedule:
    return as_schedule(ask(carried(instance(topology, workload, SLOT_S)), sums=sums), topology, workload)


def _with(made: Schedule, times: Times, options: Options) -> Schedule:
    """The schedule with its first interval at other times, over other circuits, at the links' rate."""
    first = made.intervals[0]
    rates = dict.fromkeys(first.plans, options.rate_bps)
    parts = [
        first.model_copy(update={"from_s": from_s, "until_s": until_s, "circuits": circuits, "rates_bps": rates})
        for from_s, until_s, circuits in times
    ]
    return made.model_copy(update={"intervals": parts})


def _seconds(bed: TurnsBed, workload: Workload) -> float:
    """Seconds of the slowest rank's sum from its own call on; the turn begins when all have called."""
    live, sums = run_ranks(bed, workload)
    if not all(one["seconds"] > 0 for one in sums[1]):
        raise TestbedError("a rank measured no time for its sum; its output is above")
    turn = live.seen.turns[1]
    return turn.end_s - turn.begin_s
