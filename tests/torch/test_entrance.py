"""Every collective takes tensors of every layout, type and length, or refuses them by name on all ranks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
from aggregator import networked as started
from drawn_calls import COPYING, RANKS, REDUCING, Case, drawn, fault_of, run_all
from world import World

from wiresum.plan.job import Job

KEPT_SEED = 20261129
KEPT_CASES = 400
SOAK_CASES = 20_000
BATCH = 200
"""Cases that ranks run before they report."""

SHORT_AND_LONG = (30, 5000)
REPORTED = [
    case
    for length in SHORT_AND_LONG
    for is_named in (True, False)
    for case in (
        *(Case("all_reduce", "every second", name, length) for name in ("float32", "float64", "int64", "bool")),
        *(Case(name, "column", "float32", length) for name in (*REDUCING, *COPYING)),
        *(Case(name, "expanded", "float32", length) for name in ("all_reduce", "broadcast", "all_gather", "scatter")),
        Case("all_reduce", "expanded", "float32", length, differs="layout"),
        Case("all_gather", "every second", "float32", length, differs="layout"),
        Case("broadcast", type="uint16", length=length),
        Case("broadcast", type="float64", length=length, differs="type"),
        Case("broadcast", length=length, differs="length"),
        Case("all_gather_into_tensor", length=length, is_stacked=True),
        Case("reduce_scatter_tensor", length=length, is_stacked=True),
        Case("all_reduce", type="int64", length=length, operation="AVG"),
        Case("all_reduce", type="float8_e4m3fn", length=length),
    )
    for case in [replace(case, is_named=is_named)]
]
"""Calls of public reports that failed, and their neighbors."""


@pytest.fixture(scope="module", params=[False, True], ids=["sums", "copies"])
def drawing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Ranks whose group is created again after a mismatch, which no other test would expect."""
    job = Job(values_per_packet=352, copies=request.param)
    with started(tmp_path_factory.mktemp("drawing"), RANKS, job) as world:
        yield world


def check(world: World, cases: list[Case]) -> None:
    """Runs the cases and names the first faults."""
    faults = []
    for start in range(0, len(cases), BATCH):
        batch = cases[start : start + BATCH]
        told = world.run(run_all, batch)
        faults += [(case, fault) for case, *own in zip(batch, *told, strict=True) if (fault := fault_of(case, own))]
    assert not faults, f"{len(faults)} of {len(cases)}: " + "\n".join(f"{case}: {fault}" for case, fault in faults[:20])


def test_reported_calls_are_right_or_refused(drawing: World) -> None:
    check(drawing, REPORTED)


def test_drawn_calls_are_right_or_refused(drawing: World) -> None:
    check(drawing, list(drawn(KEPT_SEED, KEPT_CASES // 2)))


@pytest.mark.soak
def test_many_drawn_calls_are_right_or_refused(drawing: World) -> None:
    seed = int(os.environ.get("WIRESUM_SEED", KEPT_SEED + 1))
    print(f"replay: WIRESUM_SEED={seed}")
    check(drawing, list(drawn(seed, SOAK_CASES // 2)))
