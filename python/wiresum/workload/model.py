"""A workload: which jobs come when, from where, with how many bytes. `spec/workload.md` documents every field."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError, model_validator

from wiresum.document import Document, FileDocument, PositiveAmount, PositiveBytes, PositiveCount, Seconds, describe
from wiresum.errors import WiresumError, WorkloadError
from wiresum.topology.names import Name

Synchrony = Literal["star", "coflow"]


class WorkloadJob(Document):
    """A job that shares the network with others.

    A location is the name of a unit (the switch of a rack) or of a host.

    Attributes:
        name: unique within the workload.
        arrival_s: when it comes, in seconds from the workload's begin.
        synchrony: `star`: all workers send to one server, at one rate, and get as much back; `coflow`: every worker
            sends to every sink, each pair at a rate of its own.
        workers: how many are at each location; of a coflow, its mappers.
        server: location of a star's parameter server; absent where only switches may sum it.
        via: of a star: units with workers, and the unit over which each sends to the server's instead of a circuit of
            its own; for jobs that servers sum.
        bytes: of a star: gradient of each worker and iteration.
        sinks: of a coflow: bytes that arrive at each location, in equal parts from all workers.
        iterations: how often the bytes are sent.
        compute_s: seconds of computing in each iteration, during which nothing is sent.
        update_s: seconds that the server takes after each iteration's last byte; a switch takes none.
        weight: how much a second of this job counts where jobs are weighted.
    """

    name: Name
    arrival_s: Seconds = 0.0
    synchrony: Synchrony = "star"
    workers: Annotated[dict[Name, PositiveCount], Field(min_length=1)]
    server: Name | None = None
    via: dict[Name, Name] = Field(default_factory=dict)
    bytes: PositiveBytes | None = None
    sinks: dict[Name, PositiveBytes] = Field(default_factory=dict)
    iterations: PositiveCount = 1
    compute_s: Seconds = 0.0
    update_s: Seconds = 0.0
    weight: PositiveAmount = 1.0

    @model_validator(mode="after")
    def _has_its_bytes(self) -> Self:
        star = self.synchrony == "star"
        if star and (self.bytes is None or self.sinks):
            raise ValueError(f"job {self.name}: a star has `bytes` for each worker and no `sinks`")
        if not star and (self.bytes is not None or self.server is not None or self.via or not self.sinks):
            raise ValueError(f"job {self.name}: a coflow has `sinks` with their bytes, no `bytes`, `server` or `via`")
        return self

    @property
    def worker_bytes(self) -> int:
        """What each worker of a star sends in all iterations."""
        return (self.bytes or 0) * self.iterations

    @classmethod
    def of_line(cls, line: int, **fields: Any) -> Self:
        """The job that a line of a trace has.

        Raises:
            WorkloadError: a field is none that a job can have; the message names line and field.
        """
        try:
            return cls.model_validate(fields)
        except ValidationError as invalid:
            raise WorkloadError(f"line {line}: {describe(invalid)}") from None

    @property
    def worker_count(self) -> int:
        """Workers of all locations."""
        return sum(self.workers.values())

    @property
    def total_bytes(self) -> int:
        """What its workers send in all iterations; as much comes back from a star's server."""
        once = sum(self.sinks.values()) if self.bytes is None else self.bytes * self.worker_count
        return once * self.iterations

    @property
    def locations(self) -> set[str]:
        """Every location that it names."""
        return {*self.workers, *self.sinks, *filter(None, [self.server])}


class Workload(FileDocument):
    """Jobs in the order in which they come."""

    error: ClassVar[type[WiresumError]] = WorkloadError
    what: ClassVar[str] = "workload"

    format: Literal["wiresum-workload/1"] = "wiresum-workload/1"
    name: Name
    jobs: Annotated[list[WorkloadJob], Field(min_length=1)]

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        twice = next((name for name, times in Counter(job.name for job in self.jobs).items() if times > 1), None)
        if twice is not None:
            raise ValueError(f"jobs: two have the name {twice}; each needs its own")
        for index, (before, job) in enumerate(pairwise(self.jobs), 1):
            if job.arrival_s < before.arrival_s:
                problem = f"{job.name} comes at {job.arrival_s} s, before {before.name} at {before.arrival_s} s"
                raise ValueError(f"jobs[{index}].arrival_s: {problem}; sort the jobs by arrival")
        return self

    def as_batch(self) -> Workload:
        """The same jobs, all of which are there at the start."""
        return self.model_copy(update={"jobs": [job.model_copy(update={"arrival_s": 0.0}) for job in self.jobs]})
