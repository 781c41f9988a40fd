"""The measurements of one call: each benchmark at most once, when the first row asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from wiresum.bench.result import Report
from wiresum.errors import WiresumError
from wiresum.plan.choices import DEFAULT_TIME_LIMIT_S
from wiresum.reproduce.row import FAILURES, Benchmark, Row


class Session:
    """Runs benchmarks on demand and keeps their reports; a failed one fails again without running again.

    Args:
        benchmarks: by the name under which rows ask for them.
        quick: with short parameters.
        data_dir: folder with the paper's public data, for benchmarks that read it.
        time_limit_s: of each planner that searches.

    Attributes:
        reports: what was measured.
        progress: told what is being measured.
    """

    def __init__(
        self,
        benchmarks: Mapping[str, Benchmark],
        quick: bool = False,
        data_dir: Path | None = None,
        time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    ) -> None:
        self._benchmarks = benchmarks
        self._quick = quick
        self._data_dir = data_dir
        self._time_limit_s = time_limit_s
        self._pace = 1.0
        self._failures: dict[str, WiresumError] = {}
        self.reports: dict[str, Report] = {}
        self.progress: Callable[[str], None] = lambda line: None

    def report(self, name: str) -> Report:
        """The outcome of a benchmark.

        Raises:
            WiresumError: it failed, now or before.
        """
        if name in self._failures:
            raise self._failures[name]
        if name not in self.reports:
            benchmark = self._benchmarks[name]
            began_s = time.monotonic()
            try:
                self.reports[name] = self._measure(benchmark)
            except FAILURES as error:
                self._failures[name] = WiresumError(f"`{benchmark.command}`: {error}")
                raise self._failures[name] from error
            if expected_s := self._idle_s(benchmark):
                self._pace = max(1.0, (time.monotonic() - began_s) / expected_s)
        return self.reports[name]

    def _measure(self, benchmark: Benchmark) -> Report:
        data = (self._data_dir,) if benchmark.reads_data else ()
        limits = {"time_limit_s": self._time_limit_s} if benchmark.searches else {}
        return benchmark.measure(
            self._quick, lambda line: self.progress(f"{benchmark.command}: {line}"), *data, **limits
        )

    def expected_s(self, rows: Sequence[Row]) -> float:
        """About how many seconds the measurements of these rows still take: on idle cores, or as slow as those before.

        Those that were measured, or have failed, take none.
        """
        names = {name for row in rows for name in row.needs} - set(self.reports) - set(self._failures)
        return self._pace * sum(self._idle_s(self._benchmarks[name]) for name in names)

    def _idle_s(self, benchmark: Benchmark) -> float:
        return benchmark.quick_seconds if self._quick else benchmark.seconds
