"""Collectives over a plan's switches in namespaces: how long they took, and what crossed each link."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from wiresum.errors import TestbedError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.incarnation import next_incarnation
from wiresum.testbed import Testbed
from wiresum.topology.model import Topology

QUIET_S = 0.2
"""After a collective, until everything that was under way has crossed."""
Bytes = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Collective:
    """One all-reduce.

    Attributes:
        seconds: of the slowest rank, from its own start.
        link_bytes: that crossed each link, from its source to its target and back.
        repetitions: contributions that any rank has sent again so far.
    """

    seconds: float
    link_bytes: Bytes
    repetitions: int


class Ranks:
    """A worker process at each rank of a testbed."""

    def __init__(self, bed: Testbed) -> None:
        self._bed = bed
        module = [sys.executable, "-m", "wiresum.bench.live.worker"]
        environment = {"WIRESUM_INCARNATION": str(next_incarnation())}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        count = range(len(bed.workers))
        self._children = [bed.spawn_worker(rank, module, environment, **pipes) for rank in count]
        for rank in count:
            self._answer(rank)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            if child.stdin:
                child.stdin.close()
        for child in self._children:
            child.wait()

    def sum(self, elements: int, groups: Sequence[Sequence[int]] | None = None, apart_s: float = 0.0) -> Collective:
        """One all-reduce of so many elements.

        Args:
            elements: of float32.
            groups: ranks that begin together, in order; all at once where absent.
            apart_s: between two groups.

        Raises:
            TestbedError: a rank failed, or has a wrong sum.
        """
        time.sleep(QUIET_S)
        before = self._bed.link_bytes()
        for index, group in enumerate(groups or [range(len(self._children))]):
            time.sleep(apart_s if index else 0.0)
            for rank in group:
                self._tell(rank, elements)
        answers = [self._answer(rank) for rank in range(len(self._children))]
        time.sleep(QUIET_S)
        after = self._bed.link_bytes()
        wrong = [rank for rank, answer in enumerate(answers) if not answer["right"]]
        if wrong:
            raise TestbedError(f"rank {', '.join(map(str, wrong))}: the sum is wrong; please report this")
        crossed = {link: (after[link][0] - seen[0], after[link][1] - seen[1]) for link, seen in before.items()}
        repetitions = sum(int(answer["repetitions"]) for answer in answers)
        return Collective(max(float(answer["seconds"]) for answer in answers), crossed, repetitions)

    def _tell(self, rank: int, elements: int) -> None:
        stdin = self._children[rank].stdin
        assert stdin is not None, "workers are started with pipes"
        stdin.write(f"{elements}\n".encode())
        stdin.flush()

    def _answer(self, rank: int) -> dict[str, Any]:
        stdout = self._children[rank].stdout
        assert stdout is not None, "workers are started with pipes"
        line = stdout.readline()
        if not line:
            code = self._children[rank].wait()
            raise TestbedError(f"rank {rank} of the live run ended with {code}; its error is above")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def running(topology: Topology, plan: AggregationPlan, mtu_bytes: int, name: str | None = None) -> Iterator[Ranks]:
    """Ranks that have joined, on a testbed of a plan's links.

    Raises:
        TestbedError: the testbed cannot be made, or a rank does not join.
    """
    with Testbed(topology, plan, name=name, mtu_bytes=mtu_bytes, loopback=False) as bed, Ranks(bed) as ranks:
        yield ranks


def median_seconds(runs: Sequence[Collective]) -> float:
    """Median over several collectives."""
    return statistics.median(run.seconds for run in runs)
