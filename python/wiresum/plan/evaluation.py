"""What one measured round says about each worker; `wiresum.torch.evaluation.evaluate_workers` writes it."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from wiresum.document import Document, FileDocument, Seconds
from wiresum.errors import PlanError, WiresumError

WORTHWHILE_SHARE = 0.10
"""Fraction of a round; with less communication, summing it elsewhere gains less than it costs (XAgg §V)."""


class WorkerEvaluation(Document):
    """One worker's round.

    Attributes:
        name: of the worker.
        compute_seconds: t₁, from the beginning of the round until it has its gradient.
        communication_seconds: t₂, until a parameter server has it, while all workers send.
    """

    name: str
    compute_seconds: Seconds
    communication_seconds: Seconds

    @property
    def round_seconds(self) -> float:
        """T = t₁ + t₂, by which workers are put together."""
        return self.compute_seconds + self.communication_seconds


class Evaluation(FileDocument):
    """All workers' rounds (XAgg §V, worker performance evaluation)."""

    error: ClassVar[type[WiresumError]] = PlanError
    what: ClassVar[str] = "evaluation"
    command: ClassVar[str] = "schema evaluation"

    format: Literal["wiresum-evaluation/1"] = "wiresum-evaluation/1"
    workers: Annotated[list[WorkerEvaluation], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        names = [worker.name for worker in self.workers]
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise ValueError(f"workers: two are called {repeated}; evaluate each once")
        return self

    def of(self, names: Sequence[str]) -> list[WorkerEvaluation]:
        """The rounds of these workers.

        Raises:
            PlanError: one was not evaluated.
        """
        by_name = {worker.name: worker for worker in self.workers}
        absent = next((name for name in names if name not in by_name), None)
        if absent is not None:
            raise PlanError(f"evaluation: {absent} is not in `workers`; measure a round with all workers of the job")
        return [by_name[name] for name in names]


def communication_share(rounds: Sequence[WorkerEvaluation]) -> float:
    """Fraction of the workers' time that goes into communication, 0 to 1."""
    total = sum(one.round_seconds for one in rounds)
    return sum(one.communication_seconds for one in rounds) / total if total else 0.0
