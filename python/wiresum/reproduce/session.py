"""The measurements of one call: each benchmark at most once, when the first row asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from wiresum.bench.result import Report
from wiresum.errors import WiresumError
from wiresum.reproduce.row import FAILURES, Benchmark, Row


class Session:
    """Runs benchmarks on demand and keeps their reports; a failed one fails again without running again.

    Args:
        benchmarks: by the name under which rows ask for them.
        quick: with short parameters.
        progress: told what is being measured.
        data_dir: folder with the paper's public data, for benchmarks that read it.
    """

    def __init__(
        self,
        benchmarks: Mapping[str, Benchmark],
        quick: bool = False,
        progress: Callable[[str], None] = lambda line: None,
        data_dir: Path | None = None,
    ) -> None:
        self._benchmarks = benchmarks
        self._quick = quick
        self._progress = progress
        self._data_dir = data_dir
        self._failures: dict[str, WiresumError] = {}
        self.reports: dict[str, Report] = {}

    def report(self, name: str) -> Report:
        """The outcome of a benchmark.

        Raises:
            WiresumError: it failed, now or before.
        """
        if name in self._failures:
            raise self._failures[name]
        if name not in self.reports:
            benchmark = self._benchmarks[name]
            try:
                data = (self._data_dir,) if benchmark.reads_data else ()
                self.reports[name] = benchmark.measure(
                    self._quick, lambda line: self._progress(f"{benchmark.command}: {line}"), *data
                )
            except FAILURES as error:
                self._failures[name] = WiresumError(f"`{benchmark.command}`: {error}")
                raise self._failures[name] from error
        return self.reports[name]

    def expected_seconds(self, rows: Sequence[Row]) -> float:
        """About how long the measurements of these rows take on idle cores."""
        names = {name for row in rows for name in row.needs}
        asked = [self._benchmarks[name] for name in names]
        return sum(one.quick_seconds if self._quick else one.seconds for one in asked)
