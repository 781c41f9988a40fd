"""`wiresum bench rates`."""

from dataclasses import dataclass, field, replace
from typing import Annotated

import typer

from wiresum.bench.command import Output, command, limited, measuring, show, suitable_engine
from wiresum.commandline import options
from wiresum.commandline.console import note
from wiresum.commandline.groups import text
from wiresum.plan.choices import Engine

BITS = 8
FLOAT32_BYTES = 4


@dataclass(frozen=True)
class Step:
    """A server's link that slows down in the midst of an all-reduce: the paper's 60 and 20 Gbit/s at 1:100.

    Attributes:
        workers: that share it.
        falls_s: after the start of the all-reduce.
        lasts_s: how long it is narrow.
        recovers_s: how long it is watched afterwards.
    """

    wide_bps: Annotated[float, typer.Option("--rate", help="Rate of every link at first")] = text("600mbit", limited)
    narrow_bps: Annotated[float, typer.Option("--slow-rate", help="Rate to which the server's link drops")] = text(
        "200mbit", limited
    )
    workers: int = 3
    falls_s: float = 0.6
    lasts_s: float = 1.0
    recovers_s: float = 1.0

    @property
    def elements(self) -> int:
        """Elements of a tensor that takes all the time, whatever is lost of it."""
        bits = self.wide_bps * (self.falls_s + self.recovers_s) + self.narrow_bps * self.lasts_s
        return round(bits / self.workers / BITS / FLOAT32_BYTES)


@dataclass(frozen=True)
class Options:
    """What to measure.

    Attributes:
        engine: what sums, but for the rival.
        elements: float32 values of a tensor in the rounds of negotiation.
        step: the link that slows down; None leaves that out.
    """

    engine: Annotated[Engine, options.ENGINE] = suitable_engine()
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Number of negotiations that are timed")] = 50
    elements: int = 250_000
    step: Step | None = field(default_factory=Step)


@command(
    "Running aggregators",
    "--rounds 100 --plot rates.png",
    {"rates": "--plot build/bench/rates.png"},
    quick="--rounds 2",
)
def rates(chosen: Options, step: Step, plot: options.PlotOption = None, *, output: Output) -> None:
    """Measure how long rate negotiation takes, and how rates follow a slower link (XAgg, Fig. 21, at 1:100)."""
    from wiresum.bench.rates import measure as benchmark

    with measuring("rates", output) as status:
        report = benchmark.measure(replace(chosen, step=step), status.say)
    if plot:
        from wiresum.bench.rates.plot import draw

        draw(report, plot)
        note(f"{plot}: what workers send while the link slows down")
    show(report, output)
