"""`wiresum bench compare`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, measuring, parse_models, show, suitable_engine
from wiresum.commandline import options
from wiresum.commandline.console import note, out
from wiresum.commandline.groups import Reading, read, repeated
from wiresum.commandline.quantities import parse_starts
from wiresum.plan.choices import Engine

FLOAT32_BYTES = 4
MODELS: Mapping[str, int] = {
    "Inception-V3": 25_000_000,
    "ResNet50": 97_000_000,
    "AlexNet": 233_000_000,
    "VGG16": 528_000_000,
    "BERT-BiLSTM-CRF": 542_000_000,
}
"""Bytes of the paper's five models (§VI-C)."""


@dataclass(frozen=True)
class Options:
    """What to measure.

    The rates are 1:500 of the paper's by default: 1:100 is more than two cores carry for all workers, servers and the
    switch at once, so that cores would be compared.

    Attributes:
        methods: in the order of their turns; all where empty.
        models: bytes by name, before scaling.
        starts: seconds at which workers have their gradients, by name; 0 for the others.
    """

    methods: Annotated[
        tuple[str, ...], typer.Option("--method", "-m", help="Method to time; repeatable [default: all]")
    ] = repeated()
    models: Annotated[
        Mapping[str, int], typer.Option("--model", help="Model as NAME=SIZE; repeatable [default: the paper's five]")
    ] = read(MODELS, Reading(list[str] | None, None, lambda given: parse_models(given or []) or MODELS))
    scale: Annotated[float, typer.Option("--scale", help="Factor on the paper's rates")] = 0.002
    model_scale: Annotated[float, typer.Option("--model-scale", help="Factor on the models' sizes")] = 0.01
    starts: Annotated[
        Mapping[str, float], typer.Option("--start", help="Delay of a worker's gradient, as WORKER=SECONDS; repeatable")
    ] = read({}, Reading(list[str] | None, None, lambda given: parse_starts(given or [])))
    engine: Annotated[Engine, options.ENGINE] = suitable_engine()
    repeats: RunsOption = 3

    @property
    def elements(self) -> dict[str, int]:
        """float32 values of each model."""
        return {name: max(1, round(size * self.model_scale / FLOAT32_BYTES)) for name, size in self.models.items()}


@command(
    "All-reduces and trainings",
    "--method xagg --method gloo --start W3=0.2 --plot compare.png",
    {"compare": "", "compare-late": "--start W3=0.2"},
    quick="--method xagg --method gloo --model ResNet50=97MB --model-scale 0.001 --runs 1",
)
def compare(chosen: Options, plot: options.PlotOption = None, *, output: Output) -> None:
    """Time methods beside each other on XAgg's test bed (Fig. 12 and 13), turn by turn, with each one's bound."""
    from wiresum.bench.compare import measure as benchmark

    with measuring("methods, turn by turn", output):
        report = benchmark.measure(chosen, note)
    if plot:
        benchmark.draw(report, plot)
        note(f"{plot}: times by model")
    show(report, output, lambda made: out().print(benchmark.table(made)))
