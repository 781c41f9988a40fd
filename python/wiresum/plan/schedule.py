"""Plans over time. `spec/schedule.md` documents every field.

The types here are a schedule's shape; the rules across its fields are in `crates/plan`, which every schedule is put to.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from wiresum.document import MAX_BPS, Document, FileDocument, Seconds, write_text
from wiresum.errors import PlanError, WiresumError
from wiresum.plan.aggregation_plan import FORMAT as PLAN_FORMAT
from wiresum.plan.aggregation_plan import VERSION_1, AggregationPlan, Secret, native, secret_beside
from wiresum.topology.optical import Circuit

FORMAT = "wiresum-schedule/1"
"""Value of `Schedule.format`."""


class Interval(Document):
    """A time in which neither plans nor circuits change.

    Attributes:
        from_s: when it begins, in seconds from the start of the schedule.
        until_s: when it ends; absent for a last interval without an end.
        circuits: what optical switches join.
        plans: how each job is summed, by the job's id.
        rates_bps: at most how fast each worker of a job sends, in bit/s on the cable, by the job's id; jobs without a
            rate send as they can.
    """

    from_s: Seconds
    until_s: Seconds | None = None
    circuits: list[Circuit] = Field(default_factory=list)
    plans: dict[str, AggregationPlan]
    rates_bps: dict[str, Annotated[float, Field(ge=1, le=MAX_BPS)]] = Field(default_factory=dict)

    @property
    def end_s(self) -> float:
        """When it ends; infinity where it has no end."""
        return math.inf if self.until_s is None else self.until_s


class Schedule(FileDocument):
    """Plans over time; a plan alone is a schedule of one interval without an end."""

    error: ClassVar[type[WiresumError]] = PlanError
    what: ClassVar[str] = "schedule"

    format: Literal["wiresum-schedule/1"]
    intervals: list[Interval]

    @classmethod
    def read_public(cls, path: Path | str) -> Self:
        """Reads a file as it is, for commands that carry nothing out: the file of the secrets stays closed.

        Raises:
            PlanError: it cannot be read, or is wrong; with a line for each bad field.
        """
        return super().read(path)

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Reads a file, and secrets of jobs from the one beside it where plans have none.

        Raises:
            PlanError: one of them cannot be read, or is wrong; with a line for each bad field.
        """
        made, file = super().read(path), secret_beside(path)
        return made.with_secrets(Secrets.read(file).jobs) if file.exists() else made

    def write(self, path: Path | str) -> None:
        """Writes a file that everyone may read, and the jobs' secrets to one beside it that only its owner may.

        Raises:
            PlanError: one of them cannot be written.
        """
        secrets = {job: plan.job.secret for one in self.intervals for job, plan in one.plans.items() if plan.job.secret}
        write_text(path, self.with_secrets(None).to_json(), self.what, self.error)
        if secrets:
            file = secret_beside(path)
            write_text(file, Secrets(jobs=secrets).to_json(), Secrets.what, self.error, is_secret=True)

    def with_secrets(self, secrets: Mapping[str, str] | None) -> Self:
        """The schedule with these secrets of jobs where plans have none; with None, without any."""
        intervals = [
            one.model_copy(update={"plans": {job: _secret_of(plan, job, secrets) for job, plan in one.plans.items()}})
            for one in self.intervals
        ]
        return self.model_copy(update={"intervals": intervals})

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, document: Any) -> Any:
        """A plan's document as a schedule's."""
        if not isinstance(document, dict) or document.get("format") not in [PLAN_FORMAT, VERSION_1]:
            return document
        plan = AggregationPlan.model_validate(document)
        return {"format": FORMAT, "intervals": [{"from_s": 0.0, "plans": {str(plan.job.id): plan}}]}

    @model_validator(mode="after")
    def _keeps_the_rules(self) -> Self:
        wrong = native().validate_schedule(self.model_dump_json(exclude_none=True))
        if wrong is not None:
            field, problem = wrong
            raise ValueError(f"{field}: {problem}" if field else problem)
        return self


class Secrets(FileDocument):
    """Secrets of a schedule's jobs, by their ids; in a file of their own, as plans' are."""

    error: ClassVar[type[WiresumError]] = PlanError
    what: ClassVar[str] = "secrets"
    command: ClassVar[str] = "plan"

    jobs: dict[str, Secret]


def _secret_of(plan: AggregationPlan, job: str, secrets: Mapping[str, str] | None) -> AggregationPlan:
    secret = None if secrets is None else plan.job.secret or secrets.get(job)
    return plan.model_copy(update={"job": plan.job.model_copy(update={"secret": secret})})
