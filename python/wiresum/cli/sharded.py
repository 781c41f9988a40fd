"""`wiresum predict --collective fsdp`: how long a step of a sharded model takes, and what `overlap` brings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiresum.commandline.console import out
from wiresum.commandline.groups import given, refuse
from wiresum.plan.choices import DEFAULT_BLOCKS, FLOAT32_BYTES, FSDP, MAX_BLOCKS

if TYPE_CHECKING:
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.predict import Prediction
    from wiresum.topology.model import Topology

WAYS = {False: "without overlap", True: "with overlap"}


@dataclass(frozen=True)
class StepOptions:
    """How a model is sharded."""

    blocks: Annotated[
        int, typer.Option("--blocks", min=1, max=MAX_BLOCKS, help="Number of blocks of a model, with fsdp")
    ] = DEFAULT_BLOCKS
    overlap: Annotated[
        bool,
        typer.Option("--overlap/--no-overlap", help="Collectives of fsdp run ahead, as after `overlap(model)`, or not"),
    ] = False

    def refuse_beside(self, collective: str) -> None:
        """Refuses these options where they would do nothing.

        Raises:
            typer.BadParameter: one is given.
        """
        if collective != FSDP:
            refuse(given(self), f"is for --collective {FSDP}, not for {collective}; leave it out")


@dataclass(frozen=True)
class PredictedStep:
    """A step, predicted in both ways.

    Attributes:
        options: how the model is sharded, and which of the ways was asked for.
        ways: the predictions, by whether collectives run ahead.
    """

    options: StepOptions
    ways: dict[bool, Prediction] = field(default_factory=dict)

    @property
    def asked(self) -> Prediction:
        """The prediction of the way that was asked for."""
        return self.ways[self.options.overlap]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        seconds = {f"seconds_{WAYS[way].replace(' ', '_')}": found.seconds for way, found in self.ways.items()}
        return {"blocks": self.options.blocks, "overlap": self.options.overlap, **seconds, **self.asked.to_json()}

    def show(self) -> None:
        """Both times, and what bounds them."""
        seconds = ", ".join(f"{WAYS[way]} {found.seconds:.4f} s" for way, found in self.ways.items())
        out().print(f"a step of {FSDP}, {self.options.blocks} blocks that compute nothing: {seconds}")


def predicted_step(
    topology: Topology, plan: AggregationPlan, bytes: int, options: StepOptions, element_bytes: int = FLOAT32_BYTES
) -> PredictedStep:
    """Predicts a step; arguments and errors as for `predict_step`."""
    from wiresum.predict.sharded import ShardedStep, predict_step

    ways = {way: predict_step(topology, plan, bytes, ShardedStep(options.blocks, way), element_bytes) for way in WAYS}
    return PredictedStep(options, ways)
