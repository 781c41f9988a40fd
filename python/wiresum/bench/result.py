"""The one shape that every benchmark's outcome has."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Result:
    """One measured quantity over several runs."""

    name: str
    unit: str
    runs: list[float]
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for made in _collections:
            made[self.name] = self

    @property
    def median(self) -> float:
        """Median of the runs."""
        return statistics.median(self.runs)

    def to_json(self) -> dict[str, Any]:
        """The result with its spread."""
        spread = {"median": self.median, "min": min(self.runs), "max": max(self.runs)}
        return {"name": self.name, **spread, "unit": self.unit, "runs": self.runs, **self.extra}


_collections: list[dict[str, Result]] = []


@contextmanager
def collected() -> Iterator[dict[str, Result]]:
    """Results that are made in the block, by name: what is known where it is left by Ctrl-C before a report is made."""
    made: dict[str, Result] = {}
    _collections.append(made)
    try:
        yield made
    finally:
        _collections.pop()


@dataclass(frozen=True)
class Ratio:
    """One measured quantity over another, as its name says."""

    name: str
    value: float


@dataclass(frozen=True)
class Limit:
    """What physics allows, and how it was computed."""

    value: float
    unit: str
    explanation: str


@dataclass(frozen=True)
class Report:
    """A benchmark's outcome."""

    benchmark: str
    parameters: dict[str, Any]
    results: Sequence[Result]
    ratios: Sequence[Ratio] = ()
    limit: Limit | None = None
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """One object with the same keys for every benchmark; `limit` only where there is one."""
        limit = {"limit": asdict(self.limit)} if self.limit else {}
        return {
            "benchmark": self.benchmark,
            "parameters": self.parameters,
            "machine": machine(),
            "results": [result.to_json() for result in self.results],
            **limit,
            "ratios": [asdict(ratio) for ratio in self.ratios],
            "notes": list(self.notes),
        }


def machine() -> dict[str, Any]:
    """What it was measured on. A load above zero at the start means that others were at work."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "load_1min": os.getloadavg()[0],
        "python": platform.python_version(),
    }


def cpu_model() -> str:
    """The processor's name, as far as the system tells."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
