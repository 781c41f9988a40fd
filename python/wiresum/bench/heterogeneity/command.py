"""`wiresum bench heterogeneity`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, limited, measuring, show, suitable_engine
from wiresum.commandline import options
from wiresum.commandline.console import note
from wiresum.commandline.groups import repeated, text
from wiresum.commandline.quantities import parse_size
from wiresum.plan.choices import Engine

if TYPE_CHECKING:
    from wiresum.topology.model import Topology


@dataclass(frozen=True)
class Options:
    """What to measure; the defaults are XAgg's Fig. 1 at 1:100, whose codec lets no rank wait for others' exponents.

    Attributes:
        rates: record how fast each worker sends in the last run, for a picture.
    """

    rate_bps: Annotated[float, typer.Option("--rate", help="Rate of every link but that of W2")] = text(
        "100mbit", limited
    )
    slow_rate_bps: Annotated[float, typer.Option("--slow-rate", help="Rate of the link of W2")] = text(
        "50mbit", limited
    )
    late_s: Annotated[float, typer.Option("--late", min=0, help="Seconds by which W3 is late")] = 2.0
    size_bytes: Annotated[int, typer.Option("--size", help="Size of the float32 gradient")] = text("12.5MB", parse_size)
    both_ways: Annotated[
        bool, typer.Option("--both-ways", help="Limit the way down too; the paper counts the way up")
    ] = False
    methods: Annotated[tuple[str, ...], typer.Option("--method", help="Method to run; repeatable [default: all]")] = (
        repeated()
    )
    engine: Annotated[Engine, options.ENGINE] = suitable_engine()
    codec: options.CodecOption = "fixed:1e8"
    repeats: RunsOption = 3
    rates: bool = False

    @property
    def topology(self) -> Topology:
        """The links."""
        from wiresum.topology.generators.stragglers import stragglers

        return stragglers(self.rate_bps, self.slow_rate_bps, both_ways=self.both_ways)

    @property
    def starts(self) -> dict[str, float]:
        """When workers have their gradients."""
        return {"W3": self.late_s}


@command(
    "All-reduces and trainings",
    "--late 2 --slow-rate 50mbit",
    {"heterogeneity": "--plot build/bench/heterogeneity.png"},
    quick="--size 1MB --late 0.2 --runs 1",
)
def heterogeneity(chosen: Options, plot: options.PlotOption = None, *, output: Output) -> None:
    """Sum with a slow link and a late worker, by method (XAgg, Fig. 1, at 1:100 by default)."""
    from wiresum.bench.heterogeneity import measure as benchmark

    with measuring("heterogeneity", output) as status:
        report = benchmark.measure(
            replace(chosen, rates=plot is not None), lambda title: status.say(f"{title}, {chosen.repeats} times")
        )
    if plot:
        from wiresum.bench.heterogeneity.plot import draw

        draw(report, plot)
        note(f"{plot}: rates over time, predicted and measured")
    show(report, output)
