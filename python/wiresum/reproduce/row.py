"""One statement of a paper beside what is left of it when it is computed again, and measured again."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from wiresum.bench.result import Report
from wiresum.errors import WiresumError

CLASSES = {
    "A": "analytic: a closed form or a fluid",
    "P": "simulation of packets",
    "L": "live in network namespaces, scaled down: ratios and trends",
    "H": "an absolute value that needs the paper's hardware",
    "X": "the paper's figures contradict each other: corrected value beside it",
    "-": "cited there from elsewhere",
}
"""How a statement can be checked."""

FAILURES = (WiresumError, OSError, subprocess.SubprocessError)
"""What a measurement may end with that is not a bug: it is shown in its row, and other rows go on."""


class Reports(Protocol):
    """Where measured rows find outcomes of benchmarks."""

    def report(self, name: str) -> Report:
        """The outcome of one, measured at its first use.

        Raises:
            WiresumError: it failed, now or before.
        """


@dataclass(frozen=True)
class Row:
    """A statement.

    Attributes:
        id: as in docs/reproduction.md.
        what: the quantity and its setting.
        classes: letters of `CLASSES`.
        source: section, figure or table.
        paper: as printed.
        recomputed: the same from the paper's own figures; absent where there is nothing to compute.
        computed: what the product's own formulas, predictions and planners say; quick.
        measured: what its benchmarks measured.
        needs: names of these benchmarks.
    """

    id: str
    what: str
    classes: str
    source: str
    paper: str
    recomputed: Callable[[], str] | None = None
    computed: Callable[[], str] | None = None
    measured: Callable[[Reports], str] | None = None
    needs: Sequence[str] = ()

    def evaluate(self, reports: Reports | None) -> Finding:
        """Computes, and measures.

        Args:
            reports: None leaves out what has to be measured, and says so.
        """
        failed = False
        ours = [self.computed()] if self.computed else []
        if self.measured and reports is None:
            ours.append("not measured, as asked")
        elif self.measured and reports is not None:
            try:
                ours.append(self.measured(reports))
            except FAILURES as error:
                ours.append(f"failed: {error}")
                failed = True
        if "H" in self.classes:
            ours.append("(absolute value: needs the paper's hardware)")
        recomputed = self.recomputed() if self.recomputed else ""
        return Finding(
            self.id, self.what, self.classes, self.source, self.paper, recomputed, "; ".join(ours), failed=failed
        )


@dataclass(frozen=True)
class Finding:
    """A row with its values; `failed` if a measurement did."""

    id: str
    what: str
    classes: str
    source: str
    paper: str
    recomputed: str
    ours: str
    failed: bool = False

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return dict(vars(self))


@dataclass(frozen=True)
class Benchmark:
    """A benchmark of the product with a paper's parameters.

    Attributes:
        command: what a user types for the same.
        seconds: about how long it takes on two idle cores.
        quick_seconds: the same with `quick`.
        measure: runs it; takes `quick` and a listener to its progress.
        network: on which, for captions.
        reads_data: whether `measure` also takes the folder with the paper's public data, or None.
        searches: whether `measure` also takes `time_limit_s`, of each planner that searches.
    """

    command: str
    seconds: float
    quick_seconds: float
    measure: Callable[..., Report]
    network: str = ""
    reads_data: bool = False
    searches: bool = False


@dataclass(frozen=True)
class Figure:
    """A picture like one of the paper's, from the product's runs.

    Attributes:
        name: the paper's, as `Fig. 6`.
        file: name of the picture.
        needs: the benchmark whose report it shows.
        draw: draws it into this file.
    """

    name: str
    file: str
    needs: str
    draw: Callable[[Report, Any], None]


@dataclass(frozen=True)
class Paper:
    """A paper whose statements are repeated.

    Attributes:
        title: authors, title, place, year.
        conditions: what all live figures of it have in common.
        rows: its statements, in order.
        benchmarks: what they are measured by.
        figures: its pictures.
    """

    title: str
    conditions: str
    rows: Sequence[Row]
    benchmarks: Mapping[str, Benchmark]
    figures: Sequence[Figure]
