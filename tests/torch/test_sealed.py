"""A node that lies to ranks, live: sealed jobs end with its name on every rank, and open ones take what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch.distributed as dist
from aggregator import aggregator
from liar import Liar, Result
from world import World

import torch
from wiresum.errors import CollectiveError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.job import Job
from wiresum.torch import Reason, explain

RANKS = 3
ELEMENTS = 5000
NOT_FINITE = 2**31 - 1
"""In the place of an exponent."""
FIRST_EXPONENT = 3 * RANKS
"""Lane of an agreement, after elements, signatures and votes of all ranks."""
MUCH = 1 << 24
"""Added to a lane: more than float32 rounds away."""


def add(result: Result) -> None:
    """Adds to a sum."""
    if not result.is_agreement:
        result.set(5, lambda lane: (lane + MUCH + 2**31) % 2**32 - 2**31)


def claim(result: Result) -> None:
    """Says that a value is not finite."""
    if result.is_agreement:
        result.set(FIRST_EXPONENT, lambda _: NOT_FINITE)


def summed() -> tuple[list[float], str]:
    """What this rank takes for the sum of ones, and where it comes from; or the error."""
    tensor = torch.ones(ELEMENTS)
    work = dist.all_reduce(tensor, async_op=True)
    try:
        work.wait()
    except CollectiveError as error:
        return [], str(error)
    return tensor.tolist(), explain(work)


def told(folder: Path, change: Callable[[Result], None], *, sealed: bool) -> list[tuple[list[float], str]]:
    """What every rank ends with below a node that changes results."""
    with aggregator(folder, RANKS, Job(values_per_packet=352, sealed=sealed)) as node:
        plan = AggregationPlan.read(node.plan_file)
        host, port = plan.nodes[0].address.rsplit(":", 1)
        with Liar((host, int(port)), change) as liar:
            lying = plan.nodes[0].model_copy(update={"address": liar.address})
            file = folder / "of-ranks.json"
            plan.model_copy(update={"nodes": [lying]}).write(file)
            environment = {"WIRESUM_PLAN": str(file), "WIRESUM_MIN_ELEMENTS": "1"}
            with World(RANKS, environment) as world:
                return world.run(summed)


def test_sums_that_are_sealed_come_through_whoever_passes_them_on(tmp_path: Path) -> None:
    ones = [float(RANKS)] * ELEMENTS
    assert told(tmp_path, lambda _: None, sealed=True) == [(ones, Reason.SUMMED)] * RANKS


@pytest.mark.parametrize(("change", "what"), [(add, "the sum of fragment 0"), (claim, "the agreement on it")])
def test_a_node_that_lies_is_named_on_every_rank(tmp_path: Path, change: Callable[[Result], None], what: str) -> None:
    for _, error in told(tmp_path, change, sealed=True):
        assert f'{what} is not what the ranks sent; it was changed at one of ["switch"]' in error


def test_ranks_take_what_a_node_adds_to_a_sum_in_the_open(tmp_path: Path) -> None:
    first, *others = told(tmp_path, add, sealed=False)
    assert first[1] == Reason.SUMMED
    assert first[0][5] != RANKS
    assert others == [first] * (RANKS - 1)


def test_ranks_go_where_a_node_sends_them_in_the_open(tmp_path: Path) -> None:
    ones = [float(RANKS)] * ELEMENTS
    assert told(tmp_path, claim, sealed=False) == [(ones, Reason.NOT_FINITE)] * RANKS
