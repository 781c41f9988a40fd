"""docs/pytorch.md says of each collective, type and operation where it goes: the backend does what the table says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch.distributed as dist
from world import World

import torch
from wiresum.torch import explain

PAGE = Path(__file__).parents[2] / "docs" / "pytorch.md"
HEADING = "| collective | types | operations | without copies | with copies |"
ELEMENTS, ROOT = 12, 0
ERROR = "error"


class Case(NamedTuple):
    """A call, and what the table says becomes of it without copies in the plan and with them."""

    collective: str
    type: str
    operation: str
    without: str
    copies: str


def cases() -> Iterator[Case]:
    """The table, a call each."""
    rows = PAGE.read_text().partition(HEADING)[2].partition("\n\n")[0].splitlines()[2:]
    for row in rows:
        cells = row.strip("| ").split("|")
        collectives, types, operations = (re.findall(r"`(\w+)`", cell) or [""] for cell in cells[:3])
        told = [(re.findall(r"`(\w+)`", cell) or [cell.strip()])[0] for cell in cells[3:]]
        for collective, type_name, operation in product(collectives, types, operations):
            yield Case(collective, type_name, operation, *told)


def whole(dtype: torch.dtype) -> torch.Tensor:
    """Numbers that every type has."""
    return torch.ones(ELEMENTS, dtype=dtype)


def parts(dtype: torch.dtype) -> list[torch.Tensor]:
    """A tensor for each rank."""
    return [whole(dtype) for _ in range(dist.get_world_size())]


def joined(dtype: torch.dtype) -> torch.Tensor:
    """The tensors of all ranks as one."""
    return torch.cat(parts(dtype))


def at_root(tensors: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """What the root alone passes."""
    return tensors if dist.get_rank() == ROOT else None


Call = Callable[[torch.dtype, Any], Any]
CALLS: dict[str, Call] = {
    "all_reduce": lambda dtype, op: dist.all_reduce(whole(dtype), op, async_op=True),
    "reduce": lambda dtype, op: dist.reduce(whole(dtype), ROOT, op, async_op=True),
    "reduce_scatter": lambda dtype, op: dist.reduce_scatter(whole(dtype), parts(dtype), op, async_op=True),
    "reduce_scatter_tensor": lambda dtype, op: dist.reduce_scatter_tensor(
        whole(dtype), joined(dtype), op, async_op=True
    ),
    "broadcast": lambda dtype, _: dist.broadcast(whole(dtype), ROOT, async_op=True),
    "all_gather": lambda dtype, _: dist.all_gather(parts(dtype), whole(dtype), async_op=True),
    "all_gather_into_tensor": lambda dtype, _: dist.all_gather_into_tensor(joined(dtype), whole(dtype), async_op=True),
    "gather": lambda dtype, _: dist.gather(whole(dtype), at_root(parts(dtype)), ROOT, async_op=True),
    "gather_single": lambda dtype, _: dist.gather_single(
        whole(dtype), joined(dtype) if dist.get_rank() == ROOT else None, ROOT, async_op=True
    ),
    "scatter": lambda dtype, _: dist.scatter(whole(dtype), at_root(parts(dtype)), ROOT, async_op=True),
    "all_to_all": lambda dtype, _: dist.all_to_all(parts(dtype), parts(dtype), async_op=True),
    "all_to_all_single": lambda dtype, _: dist.all_to_all_single(joined(dtype), joined(dtype), async_op=True),
    "barrier": lambda *_: dist.barrier(async_op=True),
}


def became(case: Case) -> str:
    """The reason that `explain()` gives, or that the call is an error."""
    operation = getattr(dist.ReduceOp, case.operation) if case.operation else None
    try:
        work = CALLS[case.collective](getattr(torch, case.type, torch.float32), operation)
        work.wait()
    except (RuntimeError, ValueError):
        return ERROR
    return str(explain(work))


def all_of(given: list[Case]) -> list[str]:
    return [became(case) for case in given]


@pytest.mark.parametrize(("world", "told"), [("networked", "without"), ("copying", "copies")])
def test_the_table_says_where_each_collective_goes(world: str, told: str, request: pytest.FixtureRequest) -> None:
    given = list(cases())
    running: World = request.getfixturevalue(world)
    for found in running.run(all_of, given):
        wrong = {case[:3]: reason for case, reason in zip(given, found, strict=True) if reason != getattr(case, told)}
        assert wrong == {}


def test_the_table_has_every_collective() -> None:
    assert {case.collective for case in cases()} == set(CALLS)
