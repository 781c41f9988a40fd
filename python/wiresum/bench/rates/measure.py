"""`wiresum bench rates`: how long rate negotiation takes, and how rates follow a link that slows down (XAgg, §VI-C).

Method. On XAgg's test bed at 1:100 every worker begins again and again; workers and nodes count what answers take. Then
three workers share a server's link, which falls to a third in the midst of an all-reduce and recovers later; what they
send is read every 10 ms where it leaves their hosts, with the product and over kernel TCP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from wiresum.bench.rates import latency as rates_latency
from wiresum.bench.rates import step as rates_step
from wiresum.bench.rates.command import Options
from wiresum.bench.result import Ratio, Report, Result
from wiresum.plan.choices import Engine

RIVAL: Engine = "tcp"


def measure(options: Options, progress: Callable[[str], None] = lambda line: None) -> Report:
    """Both parts, one after the other.

    Raises:
        TestbedError: a worker failed, or the link cannot be changed.
    """
    progress(f"{options.rounds} negotiations on XAgg's test bed")
    results = rates_latency.measure(options.engine, options.elements, options.rounds)
    ratios = [Ratio(f"{r.name} / XAgg's", r.median / r.extra["paper_ms"]) for r in results if "paper_ms" in r.extra]
    if options.step:
        for engine in (options.engine, RIVAL):
            progress(f"a link that falls to a third, {engine}")
            reached, settled = rates_step.measure(options.step, engine)
            results += [reached, settled]
            ratios += step_ratios(settled)
    step = asdict(options.step) if options.step else {}
    parameters = {"engine": options.engine, "rounds": options.rounds, "elements": options.elements, **step}
    return Report("rates", parameters, results, ratios, notes=NOTES)


def step_ratios(result: Result) -> list[Ratio]:
    """What a picture shows, in figures."""
    names = {
        "lowest_over_bound": "lowest 10 ms / new bound",
        "lowest_50ms_mean_over_bound": "lowest mean of 50 ms / new bound",
        "within_5_percent_after_100ms": "part of the time within 5 % after 100 ms",
        "recovered_over_bound": "from half a second after the recovery on / old bound",
    }
    return [Ratio(f"{result.name}: {name}", result.extra[key]) for key, name in names.items()]


NOTES = (
    "negotiation: a worker's figures are of each round, a node's a mean over all rounds",
    "an update is the answer to a worker that goes on with its next collective",
    "the new rate: a mean of 50 ms within 5 % of what the link carries now; settling: all later ones are too; "
    "the whole time for which the link was narrow if that never came",
)
