"""The report: what it counts, what it says, what it is as data."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch.distributed as dist
from mock_engine import MockEngine
from world import World

import torch
from wiresum.torch import GroupReport, Reason, Report, Row, explain, report

ELEMENTS = 100


def difference(before: GroupReport, after: GroupReport) -> dict[tuple[str, str, str, str], tuple[int, int, int]]:
    def counts(group: GroupReport) -> dict[tuple[str, str, str, str], tuple[int, int, int]]:
        return {
            (row.collective, row.element_type, row.operation, str(row.reason)): (
                row.collectives,
                row.elements,
                row.bytes,
            )
            for row in group.rows
        }

    old = counts(before)
    subtracted = {
        key: tuple(new - was for new, was in zip(now, old.get(key, (0, 0, 0)), strict=True))
        for key, now in counts(after).items()
    }
    return {key: each for key, each in subtracted.items() if each[0]}  # type: ignore[misc]


def some_of_each() -> Any:
    before = report().groups[0]
    for _ in range(3):
        dist.all_reduce(torch.ones(ELEMENTS))
    dist.all_reduce(torch.ones(ELEMENTS, dtype=torch.bfloat16), op=dist.ReduceOp.AVG)
    dist.all_reduce(torch.ones(ELEMENTS, dtype=torch.float64))
    dist.all_reduce(torch.ones(1))
    dist.all_reduce(torch.ones(ELEMENTS), op=dist.ReduceOp.MAX)
    size = dist.get_world_size()
    dist.reduce_scatter_tensor(torch.empty(ELEMENTS), torch.ones(size * ELEMENTS))
    dist.reduce_scatter_tensor(torch.empty(ELEMENTS), torch.ones(size * ELEMENTS), op=dist.ReduceOp.MIN)
    dist.reduce(torch.ones(ELEMENTS), dst=1)
    dist.broadcast(torch.ones(ELEMENTS), src=0)
    dist.barrier()
    after = report()
    assert after.groups[0].engine["collectives_summed"] == MockEngine.current.submitted
    json.dumps(after.to_dict())
    return difference(before, after.groups[0]), str(after)


def test_each_collective_is_counted_once_by_kind_and_reason(mocked: World) -> None:
    for counted, text in mocked.run(some_of_each):
        assert counted == {
            ("all_reduce", "float32", "SUM", "summed"): (3, 3 * ELEMENTS, 12 * ELEMENTS),
            ("all_reduce", "bfloat16", "AVG", "summed"): (1, ELEMENTS, 2 * ELEMENTS),
            ("all_reduce", "float64", "SUM", "element_type"): (1, ELEMENTS, 8 * ELEMENTS),
            ("all_reduce", "float32", "SUM", "too_small"): (1, 1, 4),
            ("all_reduce", "float32", "MAX", "operation"): (1, ELEMENTS, 4 * ELEMENTS),
            ("reduce_scatter_single", "float32", "SUM", "summed"): (1, 3 * ELEMENTS, 12 * ELEMENTS),
            ("reduce_scatter_single", "float32", "MIN", "operation"): (1, 3 * ELEMENTS, 12 * ELEMENTS),
            ("reduce", "float32", "SUM", "summed"): (1, ELEMENTS, 4 * ELEMENTS),
            ("broadcast", "float32", "", "collective"): (1, ELEMENTS, 4 * ELEMENTS),
            ("barrier", "", "", "collective"): (1, 0, 0),
        }
        assert "× all_reduce bfloat16 AVG" in text


GROUP = GroupReport(
    name="0",
    rank=0,
    size=4,
    no_network="",
    rows=[
        Row("all_reduce", "float32", "SUM", Reason.SUMMED, 812, 1_025_000_000, 4_100_000_000),
        Row("all_reduce", "int64", "SUM", Reason.ELEMENT_TYPE, 15, 15, 120),
        Row("all_reduce", "float32", "SUM", Reason.TOO_SMALL, 3, 3, 12),
        Row("broadcast", "float32", "", Reason.COLLECTIVE, 99, 99, 396),
    ],
    engine={"repetitions": 7},
)


def test_the_line_at_the_end_of_a_run() -> None:
    assert GROUP.summary() == (
        "summed in the network: 812 of 830 collectives, 4.1 GB; others: 15 element_type, 3 too_small; "
        "retransmitted packets: 7"
    )


def test_copies_that_gloo_did_are_told_with_what_would_change_it() -> None:
    gathers = Row("all_gather_single", "float32", "", Reason.COLLECTIVE, 600, 600_000_000, 2_400_000_000)
    hint = "; Gloo did all-gathers, broadcasts and the like of 2.4 GB, which plans carry with `--copies`; "
    assert hint in replace(GROUP, rows=[*GROUP.rows, gathers]).summary()
    assert hint in replace(GROUP, rows=[*GROUP.rows, replace(gathers, collective="gather")]).summary()
    assert "--copies" not in replace(GROUP, rows=[*GROUP.rows, replace(gathers, bytes=400_000_000)]).summary()
    assert "--copies" not in replace(GROUP, rows=[replace(gathers, bytes=999_999)]).summary()
    assert "--copies" not in replace(GROUP, rows=[replace(gathers, reason=Reason.COPIED)]).summary()
    assert "--copies" not in replace(GROUP, rows=[gathers], no_network="no plan").summary()


def test_totals_of_several_groups() -> None:
    both = Report([GROUP, GroupReport("1", 0, 2, "the plan is for 4 workers", rows=GROUP.rows[1:], errors=["oh"])])
    assert (both.sums, both.summed, both.bytes_summed) == (848, 812, 4_100_000_000)
    assert "not connected: the plan is for 4 workers" in str(both)
    assert "error: oh" in str(both)
    assert str(Report([])) == "no process group has used wiresum yet"


@pytest.mark.parametrize("no_handle", [None, torch.futures.Future()])
def test_what_is_no_handle_is_told_where_to_look(no_handle: Any) -> None:
    with pytest.raises(TypeError, match=rf"async_op=True, not {type(no_handle).__name__}; report\(\)"):
        explain(no_handle)
