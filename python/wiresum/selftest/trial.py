"""Sums of this host with itself: every seat of a plan taken here, one step after the other until one fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from typing import Any

from wiresum.errors import SupportError, WiresumError
from wiresum.plan.aggregation_plan import AggregationPlan, agrees

MAX_ELEMENTS = 1 << 22
"""16 MB of float32: a window of every stream, unless a stream has almost no share."""
JOIN, ONE, FULL, WINDOW = "join", "one value", "full packets", "full windows"


@dataclass(frozen=True)
class Step:
    """One step, and how it ended.

    Attributes:
        name: what was tried.
        seconds: how long it took.
        elements: float32 values that each seat gave.
        repetitions: packets that were sent again.
        problem: the first error of any seat; empty if there is none.
    """

    name: str
    seconds: float
    elements: int = 0
    repetitions: int = 0
    problem: str = ""


def require_servers(plan: AggregationPlan) -> None:
    """Asserts that one host can try a plan.

    Raises:
        SupportError: the plan's switches take packets of their neighbours alone.
    """
    if plan.fabric is not None:
        raise SupportError(
            "switches of this plan take packets of their neighbours alone, so one host cannot try them; "
            "`wiresum testbed run TOPOLOGY --plan PLAN` tries them on namespaces"
        )


def trial(plan: AggregationPlan, incarnation: int, timeout_s: float) -> Iterator[Step]:
    """Joins and sums; ends after the first step that fails.

    Args:
        plan: with its secret.
        incarnation: number of this life of the job.
        timeout_s: the longest time that one step may take.

    Raises:
        PlanError: the plan is wrong, or has no secret.
    """
    with ThreadPoolExecutor(len(plan.workers)) as pool:
        seats = _Seats(plan, pool)
        try:
            yield from seats.steps(incarnation, timeout_s)
        finally:
            seats.close()


class _Seats:
    def __init__(self, plan: AggregationPlan, pool: ThreadPoolExecutor) -> None:
        # Nodes learn where a worker is from its hello, so every seat may be here.
        here = [worker.model_copy(update={"address": None}) for worker in plan.workers]
        self._plan = plan.model_copy(update={"workers": here})
        self._pool = pool
        self._engines: list[Any] = []

    def steps(self, incarnation: int, timeout_s: float) -> Iterator[Step]:
        step = self._join(incarnation, timeout_s)
        yield step
        for name, packets in ((ONE, 0), (FULL, 1), (WINDOW, self._window())):
            if step.problem:
                return
            step = self._sum(name, self._elements(packets), timeout_s)
            yield step

    def close(self) -> None:
        for engine in self._engines:
            engine.close()

    def _join(self, incarnation: int, timeout_s: float) -> Step:
        from wiresum._native import Engine

        text, began = self._plan.to_json(), time.monotonic()
        problem = self._on_each(lambda rank: self._engines.append(Engine(text, rank, incarnation, timeout_s)))
        return Step(JOIN, time.monotonic() - began, problem=problem)

    def _sum(self, name: str, elements: int, timeout_s: float) -> Step:
        import numpy as np

        arrays = [np.ones(elements, np.float32) for _ in self._engines]
        before, began = self._repetitions(), time.monotonic()
        problem = self._on_each(lambda seat: self._engines[seat].all_reduce(arrays[seat], timeout_s=timeout_s))
        seconds = time.monotonic() - began
        if not problem and self._is_exact and any((array != len(arrays)).any() for array in arrays):
            problem = f"a sum of ones is not {len(arrays)} everywhere"
        return Step(name, seconds, elements, self._repetitions() - before, problem)

    def _on_each(self, act: Callable[[int], object]) -> str:
        """What the first seat complains of, when all have ended."""
        futures = [self._pool.submit(act, seat) for seat in range(len(self._plan.workers))]
        errors = [error for future in futures if (error := future.exception())]
        unforeseen = next((error for error in errors if not isinstance(error, WiresumError)), None)
        if unforeseen:
            raise unforeseen
        return str(errors[0]) if errors else ""

    def _repetitions(self) -> int:
        return sum(int(engine.statistics()["repetitions"]) for engine in self._engines)

    @property
    def _is_exact(self) -> bool:
        """Whether a sum of ones has to be their number: everyone is in it, and exponents are the values' own."""
        return agrees(self._plan.job.codec) and self._plan.job.rounds is None

    def _window(self) -> int:
        return max(stream.window for stream in self._plan.streams)

    def _elements(self, packets: int) -> int:
        """Values of which every stream carries so many packets at least."""
        per_packet = self._plan.job.packet_values * 4 // self._plan.job.value_bytes
        values = [stream for stream in self._plan.streams if stream.role == "values"]
        least = min(stream.share for stream in values if stream.share > 0)
        return max(1, min(ceil(packets * per_packet / least), MAX_ELEMENTS))
