"""What a run has said."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Record = dict[str, Any]
"""One line of the simulator's output; `record` says of which kind."""


@dataclass
class SimulationOutcome:
    """A run's records, by kind. Times are virtual seconds.

    Attributes:
        rounds: each collective: job, begin and end.
        workers: each worker's part of each collective.
        links: what crossed each direction of each link.
        counters: of summing nodes and workers.
        slices: what the busiest directions sent in each slice of time; only where a timeline was asked for.
        slots: fragments that switches were summing at some moments; likewise, and of switch programs only.
        end: events, trace and when the last collective ended; empty while the run goes on.
    """

    rounds: list[Record] = field(default_factory=list)
    workers: list[Record] = field(default_factory=list)
    links: list[Record] = field(default_factory=list)
    counters: list[Record] = field(default_factory=list)
    slices: list[Record] = field(default_factory=list)
    slots: list[Record] = field(default_factory=list)
    end: Record = field(default_factory=dict)

    def take(self, record: Record) -> None:
        """Files a record."""
        match record["record"]:
            case "round":
                self.rounds.append(record)
            case "worker":
                self.workers.append(record)
            case "link":
                self.links.append(record)
            case "counter":
                self.counters.append(record)
            case "slice":
                self.slices.append(record)
            case "slots":
                self.slots.append(record)
            case "end":
                self.end = record

    @property
    def jobs(self) -> list[str]:
        """Names, in the order in which their first collectives ended."""
        return list(dict.fromkeys(record["job"] for record in self.rounds))

    def seconds_of(self, job: str) -> list[float]:
        """Seconds of each collective of a job, from its first worker's gradients to its last worker's sums."""
        return [record["end_s"] - record["begin_s"] for record in self.rounds if record["job"] == job]

    def utilisation_of(self, link: Record) -> float | None:
        """Fraction of the run in which a direction was busy; None without a rate."""
        seconds = self.end["at_s"]
        return 8 * link["wire_bytes"] / (link["rate_bps"] * seconds) if link["rate_bps"] and seconds else None

    def busiest(self, count: int) -> Sequence[Record]:
        """The directions that were busy longest."""
        return sorted(self.links, key=lambda link: -(self.utilisation_of(link) or 0.0))[:count]

    def count(self, name: str) -> int:
        """A counter, over all sites and jobs."""
        return sum(record["count"] for record in self.counters if record["name"] == name)

    @property
    def totals(self) -> dict[str, int]:
        """Counters that are of no single job, as set-ups of circuits, by name."""
        return {record["name"]: record["count"] for record in self.counters if not record["job"]}

    def summary(self) -> dict[str, Any]:
        """The run in a few numbers, for sweeps."""
        jobs = {}
        for job in self.jobs:
            seconds = self.seconds_of(job)
            jobs[job] = {
                "rounds": len(seconds),
                "mean_s": statistics.fmean(seconds),
                "median_s": statistics.median(seconds),
                "max_s": max(seconds),
            }
        return {
            "jobs": jobs,
            "at_s": self.end["at_s"],
            "events": self.end["events"],
            "trace": self.end["trace"],
            "checked_values": self.end["checked_values"],
            "dropped_bytes": sum(link["dropped_bytes"] for link in self.links),
            "lost_bytes": sum(link["lost_bytes"] for link in self.links),
        }

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {
            **self.summary(),
            "round": self.rounds,
            "worker": self.workers,
            "link": self.links,
            "counter": self.counters,
        }
