"""Groups that a plan names: rows, columns and all ranks of a mesh sum in the network at once, by one plan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from aggregator import aggregator
from test_groups import Log, reason_in
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from world import World, create_group

import torch
from torch import nn
from wiresum.deploy.deployment import Deployment
from wiresum.errors import JoinError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.incarnation import next_incarnation
from wiresum.plan.job import Job
from wiresum.torch import Reason, explain, report
from wiresum.torch.engine import open_engine

SIZE = 4
ROWS, COLUMNS = [[0, 1], [2, 3]], [[0, 2], [1, 3]]
TWICE = [0, 1]
"""Ranks of a group that the plan has twice."""
WIDTH = 16
STEPS = 2
LIVES = 100


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    job = Job(values_per_packet=352, copies=True, mesh=(2, 2), groups=[TWICE, [0, 1, 2]])
    with aggregator(tmp_path_factory.mktemp("meshed"), SIZE, job) as running:
        yield running


@pytest.fixture(scope="module")
def meshed(node: Deployment) -> Iterator[World]:
    environment = {"WIRESUM_PLAN": str(node.plan_file), "WIRESUM_MIN_ELEMENTS": "1"}
    with World(SIZE, environment, create_group=False) as world:
        yield world


def memory(node: Deployment) -> dict[int, int]:
    """Bytes of each job at the only node."""
    (daemon,) = node.daemons.values()
    return {job["job"]: job["memory_bytes"] for job in daemon.ask("status")["jobs"]}


def overlapping() -> dict[str, str]:
    create_group()
    groups = {"all": None, "row": _each(ROWS), "column": _each(COLUMNS)}
    reasons = {name: reason_in(group) for name, group in groups.items()}
    # Sums of several groups are under way at once.
    tensors = {name: torch.full((5000,), float(1 + dist.get_rank())) for name in groups}
    works = [dist.all_reduce(tensors[name], group=group, async_op=True) for name, group in groups.items()]
    for work in works:
        work.wait()
    for name, group in groups.items():
        expected = float(sum(1 + rank for rank in dist.get_process_group_ranks(group or dist.group.WORLD)))
        assert torch.equal(tensors[name], torch.full((5000,), expected)), name
    dist.destroy_process_group()
    return reasons


def _each(sets: list[list[int]]) -> Any:
    """Makes all of some groups, as each rank has to; that of this rank."""
    groups = [dist.new_group(ranks) for ranks in sets]
    return next(group for ranks, group in zip(sets, groups, strict=True) if dist.get_rank() in ranks)


def test_overlapping_groups_sum_in_the_network_at_once(meshed: World) -> None:
    assert meshed.run(overlapping) == [dict.fromkeys(("all", "row", "column"), Reason.SUMMED)] * SIZE


def to_and_from_the_last_ranks() -> list[str]:
    """A gather to the last rank of each group of this rank, and a scatter from it: where they went."""
    create_group()
    mine, reasons = dist.get_rank(), []
    for group in (_each(ROWS), _each(COLUMNS)):
        ranks = dist.get_process_group_ranks(group)
        is_root = mine == ranks[-1]
        shares = [torch.empty(5000) for _ in ranks] if is_root else None
        given = [torch.full((5000,), 10.0 + rank) for rank in ranks] if is_root else None
        part = torch.empty(5000)
        works = [
            dist.gather(torch.full((5000,), float(mine)), shares, ranks[-1], group, async_op=True),
            dist.scatter(part, given, ranks[-1], group, async_op=True),
        ]
        for work in works:
            work.wait()
        assert not is_root or [float(share.mean()) for share in shares or []] == ranks
        assert torch.equal(part, torch.full_like(part, 10.0 + mine))
        reasons += [str(explain(work)) for work in works]
    dist.destroy_process_group()
    return reasons


def test_groups_gather_and_scatter_in_the_network(meshed: World) -> None:
    assert meshed.run(to_and_from_the_last_ranks) == [["copied"] * 4] * SIZE


def same_ranks_again() -> tuple[list[str], str]:
    create_group()
    groups = [dist.new_group(TWICE) for _ in range(3)]
    dist.new_group([2, 3])
    others = dist.new_group([1, 2])
    reasons, why = [], ""
    if dist.get_rank() in TWICE:
        reasons = [reason_in(group) for group in groups]
    if dist.get_rank() in (1, 2):
        assert reason_in(others) == Reason.NO_NETWORK
        why = report().groups[-1].no_network
    dist.destroy_process_group()
    return reasons, why


def test_the_same_ranks_sum_as_often_as_the_plan_has_them_and_others_say_why_not(meshed: World) -> None:
    (reasons, _), (_, why), *_ = meshed.run(same_ranks_again)
    assert reasons == [Reason.SUMMED, Reason.SUMMED, Reason.NO_NETWORK]
    assert "the group has 2 ranks, which are none of its 6 groups" in why


def logged() -> list[str]:
    log = Log()
    create_group()
    reason_in(_each(ROWS))
    dist.destroy_process_group()
    return log.lines


def test_lines_about_a_group_name_its_ranks(meshed: World) -> None:
    for rank, lines in enumerate(meshed.run(logged)):
        row = ", ".join(map(str, ROWS[rank // 2]))
        named = [line for line in lines if f"(ranks {row}): summed in the network: 1 of 1 collectives" in line]
        assert len(named) == (1 if rank in (0, 2) else 0), lines


def split_twice(ranks: list[list[int]]) -> list[str]:
    """Where sums of a part of all ranks, of the same part made again, and of all go."""
    reasons = []
    create_group()
    for _ in range(2):
        part = dist.split_group(split_ranks=ranks)
        reasons += [reason_in(part), reason_in()]
        dist.destroy_process_group(part)
    dist.destroy_process_group()
    return reasons


@pytest.mark.parametrize("ranks", [ROWS, COLUMNS], ids=["rows", "columns"])
def test_parts_that_the_plan_names_are_in_the_network(meshed: World, ranks: list[list[int]]) -> None:
    assert meshed.run(split_twice, ranks) == [[Reason.SUMMED] * 4] * SIZE


def bound_to_a_device() -> list[str]:
    """PyTorch asks the backends of such groups to take part in groups that they are not in."""
    create_group(device_id=torch.device("cpu:0"))
    reasons = [reason_in(), reason_in(_each(ROWS)), reason_in(dist.split_group(split_ranks=COLUMNS))]
    dist.destroy_process_group()
    return reasons


def test_groups_bound_to_a_device_have_parts(meshed: World) -> None:
    assert meshed.run(bound_to_a_device) == [[Reason.SUMMED] * 3] * SIZE


def nested() -> list[str]:
    """A part of a part, by their own ranks; the last rank is in neither."""
    create_group()
    reasons = []
    part: Any = dist.split_group(split_ranks=[[0, 1, 2]])
    if dist.get_rank() < 3:
        reasons = [reason_in(part)]
        inner: Any = dist.split_group(part, split_ranks=[[0, 1]])
        if dist.get_rank() in TWICE:
            assert dist.get_process_group_ranks(inner) == TWICE
            reasons.append(reason_in(inner))
    dist.destroy_process_group()
    return reasons


def test_a_part_of_a_part_has_the_network_too(meshed: World) -> None:
    assert meshed.run(nested) == [[Reason.SUMMED] * 2] * 2 + [[Reason.SUMMED], []]


def reversed_parts() -> tuple[str, str]:
    create_group()
    part = dist.split_group(split_ranks=[[1, 0], [3, 2]])
    reason, why = reason_in(part), report().groups[-1].no_network
    dist.destroy_process_group()
    return reason, why


def test_a_part_in_another_order_is_no_group_of_the_plan(meshed: World) -> None:
    for reason, why in meshed.run(reversed_parts):
        assert reason == Reason.NO_NETWORK
        assert "none of its 6 groups" in why


def hybrid(backend: str) -> tuple[list[float], dict[str, tuple[bool, bool]]]:
    """Losses of an unmodified HSDP training, and for each axis whether the network carried some of it, and Gloo."""
    create_group(backend)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
    for part in (*(part for part in model if isinstance(part, nn.Linear)), model):
        fully_shard(part, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(STEPS):
        x = torch.full((2, WIDTH), 0.1 * (1 + dist.get_rank() + step))
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    reports = {group.name: group for group in report().groups}
    places = {}
    for axis in ("replicas", "shards"):
        found = reports.get(mesh.get_group(axis).group_name)
        rows = found.rows if found else ()
        inside = [row.is_summed or row.is_copied for row in rows]
        places[axis] = (any(inside), not all(inside))
    dist.destroy_process_group()
    return losses, places


def test_rows_and_columns_of_hsdp_are_in_the_network_by_one_plan(meshed: World) -> None:
    gloo, ours = meshed.run(hybrid, "gloo"), meshed.run(hybrid, "wiresum")
    for (expected, _), (losses, places) in zip(gloo, ours, strict=True):
        assert losses == pytest.approx(expected, rel=1e-5)
        assert places == dict.fromkeys(("replicas", "shards"), (True, False))


def many_lives(count: int) -> int:
    create_group()
    summed = 0
    for _ in range(count):
        group = _each(COLUMNS)
        summed += reason_in(group) == Reason.SUMMED
        dist.destroy_process_group(group)
    dist.destroy_process_group()
    return summed


def test_groups_that_come_and_go_leave_a_nodes_memory_as_it_was(node: Deployment, meshed: World) -> None:
    before = memory(node)
    assert len(before) == 7, "the job's own, and each group's"
    assert meshed.run(many_lives, LIVES) == [LIVES] * SIZE
    assert memory(node) == before


@pytest.mark.parametrize("secret", ["5e" * 32, "the job's own"])
def test_who_has_not_the_keys_of_a_group_takes_no_seat_in_it(node: Deployment, secret: str) -> None:
    whole = AggregationPlan.read(node.plan_file)
    group, before = whole.group(1), memory(node)
    given = whole.job.secret if secret == "the job's own" else secret
    forged = group.model_copy(update={"job": group.job.model_copy(update={"secret": given})})
    with pytest.raises(JoinError):
        open_engine(forged, 0, next_incarnation(), 0.5)
    assert memory(node) == before


def test_a_seat_outside_a_group_is_refused_by_name(node: Deployment) -> None:
    group = AggregationPlan.read(node.plan_file).group(1)
    with pytest.raises(Exception, match="rank"):
        open_engine(group, 2, next_incarnation(), 0.5)


def test_a_daemon_ends_a_job_with_its_groups(tmp_path: Path) -> None:
    with aggregator(tmp_path, SIZE, Job(id=9, values_per_packet=352)) as running:
        before = memory(running)
        added = running.plan.model_copy(
            update={"job": running.plan.job.model_copy(update={"id": 20, "groups": COLUMNS})}
        )
        running.add(AggregationPlan.build(**dict(added)))
        assert sorted(memory(running)) == [9, 20, 21, 22]
        (daemon,) = running.daemons.values()
        daemon.ask("remove", job=20)
        assert memory(running) == before
