"""One scenario with many values: on all cores or a Ray cluster, and from where it stopped."""

import hashlib
import itertools
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wiresum.document import read_text
from wiresum.errors import ScenarioError, SimulationError
from wiresum.sim.cluster import on_ray
from wiresum.sim.outcome import SimulationOutcome
from wiresum.sim.resolve import LoadTopology, resolve
from wiresum.sim.run import run, run_resolved
from wiresum.sim.source import ScenarioFile

Point = dict[str, Any]
"""Values of the fields that vary, by place."""
Measure = Callable[[SimulationOutcome], dict[str, Any]]


@dataclass(frozen=True)
class Sweep:
    """What varies.

    Attributes:
        path: of the scenario.
        load: finds topologies; a function of a module, as other processes call it.
        values: of each field, by place as `links.loss`.
        store: file with a line for each result; those that are there are not computed again.
        ray: address of a Ray cluster that computes, as `auto` or `ray://head:10001`; the machine's cores where absent.
        given: points, instead of every combination.
        measure: what a result says of a run, on the machine's cores; a function of a module likewise.
    """

    path: Path
    load: LoadTopology
    values: Mapping[str, Sequence[Any]]
    store: Path | None = None
    ray: str | None = None
    given: Sequence[Point] | None = None
    measure: Measure = SimulationOutcome.summary

    @property
    def points(self) -> list[Point]:
        """Every combination, the last field varying fastest."""
        if self.given is not None:
            return list(self.given)
        return [
            dict(zip(self.values, combination, strict=True)) for combination in itertools.product(*self.values.values())
        ]

    def results(self) -> Iterator[dict[str, Any]]:
        """Each result as it comes: `point`, and `summary` or `error`; known ones first.

        Raises:
            ScenarioError: the scenario is wrong at some point.
            SupportError: there is no Ray, or no cluster at the address.
        """
        text = read_text(self.path, "scenario", ScenarioError)
        known = self._known()
        keys = {key_of(text, point): point for point in self.points}
        yield from (known[key] for key in keys if key in known)
        missing = {key: point for key, point in keys.items() if key not in known}
        for _, point in missing.items():
            ScenarioFile.read(self.path, point)
        if not missing:
            return
        found = self._on_cores(missing) if self.ray is None else self._on_ray(self.ray, missing)
        for key, answer in found:
            result = {"key": key, **answer}
            if self.store:
                with self.store.open("a", encoding="utf-8") as store:
                    store.write(json.dumps(result) + "\n")
            yield result

    def _on_cores(self, missing: Mapping[str, Point]) -> Iterator[tuple[str, dict[str, Any]]]:
        context = multiprocessing.get_context("spawn")
        workers = min(len(missing), os.cpu_count() or 1)
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            futures = {
                pool.submit(simulate_point, self.path, self.load, point, self.measure): key
                for key, point in missing.items()
            }
            for future in as_completed(futures):
                yield futures[future], future.result()

    def _on_ray(self, address: str, missing: Mapping[str, Point]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Scenarios are resolved here, so that the cluster needs the package, but none of the files."""
        resolved = (
            (key, (point, resolve(ScenarioFile.read(self.path, point), self.load))) for key, point in missing.items()
        )
        return on_ray(address, simulate_resolved, resolved)

    def _known(self) -> dict[str, dict[str, Any]]:
        if self.store is None or not self.store.exists():
            return {}
        try:
            stored = read_text(self.store, "sweep", ScenarioError)
            lines = [json.loads(line) for line in stored.splitlines() if line]
        except (ValueError, RecursionError) as bad:
            raise ScenarioError(f"{self.store}: not results of a sweep ({bad}); give another file") from None
        return {line["key"]: line for line in lines}


def key_of(text: str, point: Point) -> str:
    """What tells a result from others: the scenario's text and the values."""
    return hashlib.sha256(json.dumps([text, point], sort_keys=True).encode()).hexdigest()[:16]


def simulate_resolved(point: Point, resolved: str) -> dict[str, Any]:
    """One point, on any machine that has the package."""
    try:
        return {"point": point, "summary": run_resolved(resolved).summary()}
    except SimulationError as failed:
        return {"point": point, "error": str(failed)}


def simulate_point(
    path: Path, load: LoadTopology, point: Point, measure: Measure = SimulationOutcome.summary
) -> dict[str, Any]:
    """One point, in a process of its own."""
    try:
        return {"point": point, "summary": measure(run(ScenarioFile.read(path, point), load))}
    except SimulationError as failed:
        return {"point": point, "error": str(failed)}
