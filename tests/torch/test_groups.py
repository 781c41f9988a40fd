"""Groups: which one has the network, groups in sequence, mixed devices, debug mode, groups without a plan."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mock_engine
import pytest
import torch.distributed as dist
from mock_engine import MockEngine
from world import Failure, World, create_group

import torch
from wiresum.torch import Reason, explain, report

SIZE = 3
ELEMENTS = 10


@pytest.fixture(scope="module")
def idle(plan_file: Path) -> Iterator[World]:
    """Ranks that have a plan and no group yet."""
    environment = {"WIRESUM_PLAN": str(plan_file), "WIRESUM_MIN_ELEMENTS": "1"}
    with World(SIZE, environment, prepare=mock_engine.install, create_group=False) as world:
        yield world


class Log(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        logging.getLogger("wiresum").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.getMessage()}")


def reason_in(group: Any = None) -> str:
    """Sums something, checks the result, and says where it was summed."""
    tensor = torch.ones(ELEMENTS)
    work = dist.all_reduce(tensor, group=group, async_op=True)
    work.wait()
    assert torch.equal(tensor, torch.full((ELEMENTS,), float(dist.get_world_size(group))))
    return explain(work)


def in_sequence() -> list[Any]:
    log, seen = Log(), []
    for _ in range(3):
        create_group()
        seen.append(reason_in())
        dist.destroy_process_group()
        assert MockEngine.current.closed
    return [seen, [group.summed for group in report().groups], log.lines]


def test_groups_can_be_destroyed_and_created_again(idle: World) -> None:
    for rank, (seen, summed, lines) in enumerate(idle.run(in_sequence)):
        assert seen == [Reason.SUMMED] * 3
        assert summed[-3:] == [1] * 3
        closing = [line for line in lines if "INFO summed in the network: 1 of 1 collectives, 40 B" in line]
        assert len(closing) == (3 if rank == 0 else 0)


def subgroups() -> dict[str, str]:
    create_group()
    everyone, pair, gloo = dist.new_group(), dist.new_group([0, 1]), dist.new_group(backend="gloo")
    reasons = {"default": reason_in(), "everyone": reason_in(everyone), "gloo": reason_in(gloo)}
    if dist.get_rank() < 2:
        reasons["pair"] = reason_in(pair)
    part = dist.split_group(split_ranks=[[0, 1], [2]])
    reasons["part"] = reason_in(part)
    no_network = {group.name: group.no_network for group in report().groups[-4:]}
    dist.destroy_process_group()
    return reasons | {"why": str(no_network)}


def test_one_group_has_the_network_and_the_others_say_why_not(idle: World) -> None:
    for rank, reasons in enumerate(idle.run(subgroups)):
        assert reasons["default"] == Reason.SUMMED
        assert reasons["everyone"] == reasons["part"] == Reason.NO_NETWORK
        assert reasons["gloo"] == Reason.COLLECTIVE  # not ours
        assert "in use by group '0'" in reasons["why"]
        assert f"for 3 workers, and the group has {2 if rank < 2 else 1} rank" in reasons["why"]
        if rank < 2:
            assert reasons["pair"] == Reason.NO_NETWORK
            assert "for 3 workers, and the group has 2 ranks" in reasons["why"]


def under_a_gloo_default_group() -> list[str]:
    create_group("gloo")
    first, second = dist.new_group(backend="wiresum"), dist.new_group(backend="wiresum")
    reasons = [reason_in(first), reason_in(second)]
    dist.destroy_process_group(first)
    third = dist.new_group(backend="wiresum")
    reasons.append(reason_in(third))
    dist.destroy_process_group()
    return reasons


def test_a_group_beside_gloo_has_the_network(idle: World) -> None:
    assert idle.run(under_a_gloo_default_group) == [[Reason.SUMMED, Reason.NO_NETWORK, Reason.SUMMED]] * SIZE


def mixed_devices() -> tuple[str, list[str]]:
    create_group("cpu:wiresum,cuda:gloo")
    reason = reason_in()
    devices = sorted(device.type for device in dist.group.WORLD._device_types)
    dist.destroy_process_group()
    return reason, devices


def test_other_devices_may_have_other_backends(idle: World) -> None:
    assert idle.run(mixed_devices) == [(Reason.SUMMED, ["cpu", "cuda"])] * SIZE


def sees_cuda() -> list[str]:
    create_group()
    devices = sorted(device.type for device in dist.group.WORLD._device_types)
    dist.destroy_process_group()
    return devices


def test_it_serves_the_devices_that_gloo_serves(idle: World) -> None:
    assert idle.run(sees_cuda) == [["cpu", "cuda"]] * SIZE


def in_debug_mode() -> tuple[str, str]:
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    dist.set_debug_level_from_env()
    create_group()
    reason = reason_in()
    dist.broadcast(torch.ones(3), src=0)
    assert dist.group.WORLD._get_sequence_number_for_group() > 0
    with pytest.raises(RuntimeError) as caught:
        dist.all_reduce(torch.ones(2 + dist.get_rank()))
    dist.destroy_process_group()
    del os.environ["TORCH_DISTRIBUTED_DEBUG"]
    dist.set_debug_level_from_env()
    return reason, str(caught.value)


def test_debug_mode_finds_different_shapes(idle: World) -> None:
    for reason, message in idle.run(in_debug_mode):
        assert reason == Reason.SUMMED
        assert "Detected mismatch between collectives on ranks" in message


def without_a_plan() -> tuple[str, str, list[str]]:
    log, plan = Log(), os.environ.pop("WIRESUM_PLAN")
    create_group()
    reason, group = reason_in(), report().groups[-1]
    dist.destroy_process_group()
    os.environ["WIRESUM_REQUIRE"] = "1"
    with pytest.raises(ValueError, match=r"WIRESUM_REQUIRE is set on .*: neither WIRESUM_PLAN nor WIRESUM_AGGREGATOR"):
        create_group()
    os.environ["WIRESUM_PLAN"] = plan
    del os.environ["WIRESUM_REQUIRE"]
    return reason, group.no_network, log.lines


def test_without_a_plan_gloo_does_everything_and_rank_0_warns(idle: World) -> None:
    for rank, (reason, why, lines) in enumerate(idle.run(without_a_plan)):
        assert reason == Reason.NO_NETWORK
        assert "neither WIRESUM_PLAN nor WIRESUM_AGGREGATOR" in why
        warnings = [line for line in lines if line.startswith("WARNING") and "uses Gloo for everything" in line]
        assert len(warnings) == (1 if rank == 0 else 0)


def with_a_misspelt_setting() -> list[str]:
    log = Log()
    os.environ["WIRESUM_WINDOWS"] = "64"
    for _ in range(2):
        create_group()
        dist.destroy_process_group()
    del os.environ["WIRESUM_WINDOWS"]
    return [line for line in log.lines if "WIRESUM_WINDOWS" in line]


def test_a_misspelt_setting_is_told_once_by_rank_0_with_the_right_name(idle: World) -> None:
    told, *others = idle.run(with_a_misspelt_setting)
    assert told == ["WARNING WIRESUM_WINDOWS is not a setting and does nothing; did you mean WIRESUM_WINDOW?"]
    assert others == [[]] * len(others)


def with_a_bad_setting_on_rank_1() -> str:
    if int(os.environ["WIRESUM_TEST_RANK"]) == 1:
        os.environ["WIRESUM_MIN_ELEMENTS"] = "few"
    with pytest.raises(ValueError, match="WIRESUM_MIN_ELEMENTS is 'few'") as caught:
        create_group()
    os.environ["WIRESUM_MIN_ELEMENTS"] = "1"
    return str(caught.value)


def number_ranks(rank: int) -> None:
    os.environ["WIRESUM_TEST_RANK"] = str(rank)


def test_a_bad_setting_on_one_rank_is_an_error_on_all(idle: World) -> None:
    for rank in range(SIZE):
        idle.run(number_ranks, rank, ranks=[rank])
    assert all("rank 1" in message for message in idle.run(with_a_bad_setting_on_rank_1))


def nobody_there() -> None:
    from wiresum.torch import bootstrap, engine

    replaced, bootstrap.open_engine = bootstrap.open_engine, engine.open_engine
    os.environ["WIRESUM_JOIN_TIMEOUT_S"] = "0.5"
    try:
        create_group()
    finally:
        bootstrap.open_engine = replaced
        del os.environ["WIRESUM_JOIN_TIMEOUT_S"]


def fall_back() -> str:
    os.environ["WIRESUM_FALLBACK"] = "gloo"
    nobody_there()
    del os.environ["WIRESUM_FALLBACK"]
    reason = reason_in()
    dist.destroy_process_group()
    return reason


def test_no_aggregator_is_an_error_on_every_rank(idle: World) -> None:
    failures = idle.try_to_run(nobody_there)
    assert all(isinstance(failure, Failure) and failure.kind == "JoinError" for failure in failures)
    assert "Start wiresum-node with this plan, or set WIRESUM_FALLBACK=gloo" in failures[1].message


def test_or_gloo_if_that_is_wanted(idle: World) -> None:
    assert idle.run(fall_back) == [Reason.NO_NETWORK] * SIZE


def gloo_threads() -> list[list[str]]:
    """Before, during and after the life of a group; the mock engine of it has a Gloo group of its own, let go first."""
    names: list[list[str]] = []

    def look() -> None:
        comm = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
        names.append(sorted(name for name in comm if "gloo" in name))

    look()
    create_group()
    dist.all_reduce(torch.ones(ELEMENTS, dtype=torch.int32), op=dist.ReduceOp.MIN)
    look()
    MockEngine.current.gloo = None
    dist.destroy_process_group()
    look()
    return names


def test_no_thread_of_gloo_outlives_its_group(idle: World) -> None:
    """One that frees a tensor while the interpreter ends would abort the process."""
    for before, during, after in idle.run(gloo_threads):
        assert during
        assert len(after) <= len(before), "the engine of the group before may have gone meanwhile"
