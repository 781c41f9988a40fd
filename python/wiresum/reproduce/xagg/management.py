"""§V and §VI-C: rates, deployment, trees."""

from __future__ import annotations

from wiresum.bench.deploy import measure as deploy
from wiresum.bench.result import Result
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import parents_of
from wiresum.planners import plan
from wiresum.planners.xagg.ktree import height
from wiresum.planners.xagg.selection import MEMORY_SHARE
from wiresum.predict import predict_tree
from wiresum.reproduce.row import Reports, Row
from wiresum.reproduce.words import listed, percent, times
from wiresum.reproduce.xagg import arithmetic, printed
from wiresum.reproduce.xagg.training import PAPER_SCALE, RESNET50_BYTES
from wiresum.topology.generators.xagg import SERVER_MEMORY_BYTES, xagg

PAPER_KS = range(2, 6)


def trees() -> str:
    """The planner's answers on the paper's test bed, by k and by itself."""
    network, job = xagg(PAPER_SCALE), Job(policy="cache", gradient_bytes=RESNET50_BYTES)
    seconds = {}
    for k in PAPER_KS:
        made = plan(network, job, PlanOptions(k=k), "xagg")
        parents = parents_of(made, made.streams[-1])
        seconds[f"k = {k}"] = f"{1e3 * predict_tree(network, parents, RESNET50_BYTES).seconds:.1f} ms"
    chosen = plan(network, job, PlanOptions(), "xagg").planner.removeprefix("xagg: ").split(",")[0]
    memory = MEMORY_SHARE * SERVER_MEMORY_BYTES / 1e9
    return (
        f"planner `xagg` on Fig. 12, ResNet50, fluid: {listed(seconds)}; it takes {chosen}; "
        f"height(7, 3) = {height(7, 3)}; {percent(MEMORY_SHARE, 0)} of 128 GB = {memory:.1f} GB; "
        "measured rates of servers in place of 10 Gbit/s a core"
    )


def _negotiation() -> str:
    initial = arithmetic.mean_over_nodes(printed.INITIALIZATION_MS)
    update = arithmetic.mean_over_nodes(printed.UPDATE_MS)
    return f"means over 7 workers, 2 servers, 1 PS: {initial:.1f} and {update:.1f} ms, with 1 ms for the PS's update"


def negotiation(reports: Reports) -> str:
    """Medians by role and period."""
    results = {(r.extra["role"], r.extra["period"]): r for r in reports.report("rates").results if "role" in r.extra}
    found = {
        f"{role}, {period}": f"{result.median:.2f} ms"
        + (f" (p99 {result.extra['p99']:.2f})" if role == "worker" else "")
        for (role, period), result in results.items()
    }
    return f"live: {listed(found)}"


def deployment(reports: Reports) -> str:
    """Ours over the paper's."""
    report = reports.report("deploy")
    found = {
        result.name: f"{result.median:.2f} s ({times(result.median / deploy.PAPER_S[result.name])} XAgg's)"
        for result in report.results
        if result.name in deploy.PAPER_S
    }
    return f"live: {listed(found)}"


def falling_bandwidth(reports: Reports) -> str:
    """How rates settled, by what carried them."""
    steps = [result for result in reports.report("rates").results if "sent_bps" in result.extra]
    return f"live at 1:100, all workers together: {listed({step.name: _settled(step) for step in steps})}"


def _settled(step: Result) -> str:
    when = f"after {step.median:.0f} ms" if step.extra["settled"] else "never for good"
    within = percent(step.extra["within_5_percent_after_100ms"], 0)
    lowest = percent(step.extra["lowest_50ms_mean_over_bound"], 0)
    return f"{when} (from 100 ms on {within} of the time within 5 %; least mean of 50 ms {lowest} of the link)"


ROWS = (
    Row(
        "X9", "delay of rate negotiation: initialization, update", "L", "§IV-D, §VI-C",
        "9.6 and 1.7 ms; by role 12, 5, 2 ms (worker, server, PS) and 2, 1 ms (worker, server)",
        recomputed=_negotiation, measured=negotiation, needs=("rates",),
    ),
    Row(
        "X15", "deployment of an aggregator, compiled before or at the node", "L", "§VI-C", "0.34 s and 0.68 s",
        measured=deployment, needs=("deploy",),
    ),
    Row(
        "X16", "sending rate when a receiver's bandwidth falls from 60 to 20 Gbit/s", "L", "Fig. 21",
        "smooth; TCP falls to almost 0 and starts slowly", measured=falling_bandwidth, needs=("rates",),
    ),
    Row(
        "X17", "79 % communication (DeepLight, 100 Gbit/s); 60 % idle CPU, 35 % idle memory; Wedge 22 MB, BERT 1274 MB",
        "-", "§I", "cited from other publications", computed=lambda: "not repeated",
    ),
    Row(
        "X18", "rules for trees: memory, cores, children of a node", "A", "§V",
        "use at most 80 % of memory, 10 Gbit/s a core, k from 2 to 5, height ⌈1 + log_k w⌉",
        computed=trees,
    ),
)  # fmt: skip
