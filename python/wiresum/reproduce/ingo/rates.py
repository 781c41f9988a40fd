"""§VI: the sending rate and the elements that switches sum, on the testbed and in the fat-tree."""

from __future__ import annotations

from collections.abc import Mapping

from wiresum.bench.routing import check as routing_check
from wiresum.bench.routing import measure as routing
from wiresum.plan.assignment import Instance
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.reproduce.ingo import printed
from wiresum.reproduce.row import Reports, Row
from wiresum.reproduce.words import listed, live_plans
from wiresum.topology.generators.ingo import BETWEEN, ingo

BITS = 32
LARGEST = "fat-tree, 50 workers"
SMALLEST = "fat-tree, 10 workers"


def gains(values: Mapping[str, float]) -> str:
    """How much more InGo has than the others."""
    return listed({name: f"+{values['InGo'] / values[name] - 1:.1%}" for name in ("GRID", "ATP")})


def testbed_optimum() -> str:
    """The integral optimum by the shape of the paper's "interconnected"."""
    rates = {
        shape: f"{routing.planned('ingo', Instance.of(ingo(shape), Job()), PlanOptions())[0].rate_bps / 1e9:.2f}"  # type: ignore[arg-type]
        for shape in BETWEEN
    }
    return f"planner `ingo`: {listed(rates)} Gbit/s, proven; 3.74 rules out a star"


def workers_summed(sums: Mapping[str, float], gbps: Mapping[str, float]) -> str:
    """Workers that switches sum, if elements per second are workers times f / 32."""
    return listed({name: f"{sums[name] * 1e6 * BITS / (gbps[name] * 1e9):.1f}" for name in sums})


def _rates(reports: Reports, *networks: str) -> str:
    report = reports.report("routing")
    return "; ".join(
        f"{network}: "
        + listed({name: f"{one.extra['mean_gbps']:.2f}" for name, one in routing.of(report, network).items()})
        + " Gbit/s"
        for network in networks
    )


def _testbed_rates(reports: Reports) -> str:
    planned = _rates(reports, *(f"testbed as {shape}, 10 workers" for shape in BETWEEN))
    return f"{planned}; {live_plans(reports.report('live'))}"


def _sums(reports: Reports, network: str) -> str:
    found = routing.of(reports.report("routing"), network)
    values = {name: f"{one.extra['elements_per_second'] / 1e6:.0f}" for name, one in found.items()}
    return f"{network}: {listed(values)} million/s"


def _of_bound(reports: Reports) -> str:
    found = routing.of(reports.report("routing"), LARGEST)
    worst = {name: found[name].extra["worst_of_bound"] for name in ("ingo", "r-ingo")}
    return "at least " + listed({name: f"{share:.1%}" for name, share in worst.items()}) + " of the proven bound"


def _tried(reports: Reports) -> str:
    """By fidelity, the range over networks and planners."""
    report, said = reports.report("check"), []
    for fidelity in routing_check.FIDELITIES:
        found = [one for one in report.results if one.extra["fidelity"] == fidelity]
        reached, busiest = [one.median for one in found], max(one.extra["busiest"] for one in found)
        said.append(
            f"{TRIED[fidelity]}: {min(reached):.3f} to {max(reached):.3f} of the promised rate in {len(found)} runs, "
            f"busiest link at {busiest:.3f} of its capacity"
        )
    return f"{listed_planners()}, simulated: {'; '.join(said)}"


TRIED = {"flows": "gradients alone, as flows", "trains": "packets, with results on the same links"}


def listed_planners() -> str:
    """The planners whose rates are tried."""
    return ", ".join(f"`{name}`" for name in routing_check.PLANNERS)


ROWS = (
    Row(
        "I1", "sending rate, testbed, 10 workers", "AL", "§VI-B, Fig. 2",
        "InGo 3.74, GRID 1.39, ATP 1.61 Gbit/s; +169.5 and +133.3 %",
        recomputed=lambda: f"{gains(printed.TESTBED_GBPS)}; elsewhere ATP is the slowest, so the two may be exchanged",
        computed=testbed_optimum,
        measured=_testbed_rates, needs=("routing", "live"),
    ),
    Row(
        "I2", "elements summed per second, testbed, 10 workers", "A", "§VI-B, Fig. 3",
        "InGo 152.61, ATP 50.32, GRID 72.67 million; +203.22 and +109.99 %",
        recomputed=lambda: f"{gains(printed.TESTBED_MILLION_SUMS)}; workers summed in switches, by the rates of "
        f"Fig. 2: {workers_summed(printed.TESTBED_MILLION_SUMS, printed.TESTBED_GBPS)} of 10",
        measured=lambda reports: _sums(reports, "testbed as mesh, 10 workers"),
        needs=("routing",),
    ),
    Row(
        "I4", "sending rate, fat-tree, 50 workers", "A", "§VI-C, Fig. 6",
        "InGo 1.00, GRID 0.38, ATP 0.29 Gbit/s; +240.4 and +164.5 % on GRID and ATP",
        recomputed=lambda: f"{gains(printed.SIMULATED_GBPS)}: the labels are exchanged",
        measured=lambda reports: f"{_rates(reports, LARGEST)}; {_of_bound(reports)}",
        needs=("routing",),
    ),
    Row(
        "I5", "elements summed per second, fat-tree, 50 workers", "A", "§VI-C, Fig. 7",
        "InGo 1443, ATP 235, GRID 620 million; +514.0 and +132.7 % on GRID and ATP",
        recomputed=lambda: f"{gains(printed.SIMULATED_MILLION_SUMS)}: the labels are exchanged; workers summed in "
        "switches, by the rates of Fig. 6: "
        f"{workers_summed(printed.SIMULATED_MILLION_SUMS, printed.SIMULATED_GBPS)} of 50",
        measured=lambda reports: _sums(reports, LARGEST),
        needs=("routing",),
    ),
    Row(
        "I7", "elements summed per second, fat-tree, 10 workers", "A", "§VI-C, Fig. 7", "InGo may have fewer",
        measured=lambda reports: _sums(reports, SMALLEST), needs=("routing",),
    ),
    Row(
        "I12", "the rates of plans, tried out: testbed in three shapes, fat-tree with 50 workers", "AP", "not in it",
        "", measured=_tried, needs=("check",),
    ),
)  # fmt: skip
