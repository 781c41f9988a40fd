"""Plans over time. `spec/schedule.md` documents every field.

The types here are a schedule's shape; the rules across its fields are in `crates/plan`, which every schedule is put to.
"""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from wiresum.document import Document, FileDocument
from wiresum.errors import PlanError, WiresumError
from wiresum.plan.aggregation_plan import FORMAT as PLAN_FORMAT
from wiresum.plan.aggregation_plan import VERSION_1, AggregationPlan, native
from wiresum.topology.optical import Circuit

FORMAT = "wiresum-schedule/1"
"""Value of `Schedule.format`."""
Seconds = Annotated[float, Field(ge=0)]


class Interval(Document):
    """A time in which neither plans nor circuits change.

    Attributes:
        from_s: when it begins, in seconds from the begin of the schedule.
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
    rates_bps: dict[str, Annotated[float, Field(ge=1)]] = Field(default_factory=dict)


class Schedule(FileDocument):
    """Plans over time; a plan alone is a schedule of one interval without an end."""

    error: ClassVar[type[WiresumError]] = PlanError
    what: ClassVar[str] = "schedule"

    format: Literal["wiresum-schedule/1"]
    intervals: list[Interval]

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, document: Any) -> Any:
        """A plan's document as a schedule's."""
        if not isinstance(document, dict) or document.get("format") not in {PLAN_FORMAT, VERSION_1}:
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
