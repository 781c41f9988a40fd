"""Collectives that fail: the exception's class, words and ways out, and what follows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import mock_engine
import pytest
import torch.distributed as dist
from mock_engine import FAILED, MISMATCH, TIMED_OUT, WORKER_LOST, Fault, MockEngine
from torch.nn.parallel import DistributedDataParallel
from world import World, create_group

import torch
from wiresum import errors
from wiresum.torch import Reason, explain, report

SIZE = 2


@pytest.fixture(scope="module")
def pair(plan_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    from wiresum.plan.job import Job
    from wiresum.plan.options import PlanOptions
    from wiresum.planners import plan
    from wiresum.topology.generators.star import star

    path = tmp_path_factory.mktemp("plan") / "pair.json"
    plan(star(workers=SIZE), Job(), PlanOptions(engine="udp")).write(path)
    environment = {"WIRESUM_PLAN": str(path), "WIRESUM_MIN_ELEMENTS": "1"}
    with World(SIZE, environment, prepare=mock_engine.install) as world:
        yield world


def fail_with(outcome: int) -> tuple[str, str, str]:
    MockEngine.current.faults = [Fault(outcome, "worker w1 has not delivered fragment 17")]
    work = dist.all_reduce(torch.ones(10), async_op=True)
    future = work.get_future()
    with pytest.raises(errors.CollectiveError) as caught:
        work.wait()
    assert isinstance(caught.value, RuntimeError)
    assert work.is_completed()
    assert not work.is_success()
    assert explain(work) is Reason.FAILED
    with pytest.raises(Exception, match="has not delivered fragment 17"):
        future.wait()
    with pytest.raises(errors.CollectiveError):
        work.wait()  # and again
    return type(caught.value).__name__, str(caught.value), report().groups[0].errors[-1]


@pytest.mark.parametrize(
    ("outcome", "kind", "remedy"),
    [
        (MISMATCH, errors.MismatchError, "same number of elements"),
        (TIMED_OUT, errors.CollectiveTimeoutError, "longer timeout"),
        (WORKER_LOST, errors.WorkerLostError, "create it again with all its ranks"),
        (FAILED, errors.CollectiveError, "create it again"),
    ],
)
def test_an_outcome_becomes_an_exception_that_says_what_to_do(
    pair: World, outcome: int, kind: type[Exception], remedy: str
) -> None:
    for rank, (name, message, noted) in enumerate(pair.run(fail_with, outcome)):
        assert name == kind.__name__
        assert "worker w1 has not delivered fragment 17" in message
        assert f"on rank {rank}" in message
        assert "10 float32 (SUM)" in message
        assert remedy in message
        assert noted == message


def fail_in_backward() -> str:
    model = DistributedDataParallel(torch.nn.Linear(30, 30))
    MockEngine.current.faults = [Fault(TIMED_OUT, "node 0 has been silent")]
    with pytest.raises(RuntimeError, match="node 0 has been silent") as caught:
        model(torch.ones(1, 30)).sum().backward()
    return type(caught.value).__name__


def test_ddp_raises_it_from_backward(pair: World) -> None:
    assert set(pair.run(fail_in_backward)) == {"CollectiveTimeoutError"}


def different_shapes() -> str:
    with pytest.raises(errors.MismatchError) as caught:
        dist.all_reduce(torch.ones(10 + dist.get_rank()))
    return str(caught.value)


def test_different_shapes_are_an_error_on_each_rank(pair: World) -> None:
    assert all("different tensors" in message for message in pair.run(different_shapes))


def close_with_work_under_way() -> None:
    go = threading.Event()
    MockEngine.current.faults = [Fault(FAILED, "this worker has left the job", until=go)]
    work = dist.all_reduce(torch.ones(10), async_op=True)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    closing = threading.Thread(target=dist.destroy_process_group)
    closing.start()
    go.set()
    closing.join()
    with pytest.raises(errors.CollectiveError, match="has left the job"):
        work.wait()
    with pytest.raises(errors.CollectiveError, match="is closed"):
        backend.allreduce([torch.ones(10)]).wait()
    assert MockEngine.current.closed


def start_again() -> float:
    create_group()
    tensor = torch.ones(10)
    dist.all_reduce(tensor)
    return tensor[0].item()


def test_closing_ends_what_is_under_way_and_a_new_group_works(pair: World) -> None:
    pair.run(close_with_work_under_way)
    assert pair.run(start_again) == [SIZE] * SIZE
    assert [len(report_.groups) for report_ in pair.run(report)] == [2] * SIZE


def abort() -> None:
    dist.distributed_c10d._abort_process_group()
    assert MockEngine.current.closed


def test_abort_closes_the_connection(pair: World) -> None:
    pair.run(abort)
    assert pair.run(start_again) == [SIZE] * SIZE
