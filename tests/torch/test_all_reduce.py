"""All-reduces that the network takes: results, handles, order, memory."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
import torch.distributed as dist
from mock_engine import Fault, MockEngine
from world import World

import torch
from wiresum.errors import CollectiveTimeoutError
from wiresum.torch import Reason, explain

ELEMENTS = 1000


def values(rank: int, dtype: torch.dtype = torch.float32, elements: int = ELEMENTS) -> torch.Tensor:
    """A rank's share, from a seed that names the rank."""
    generator = torch.Generator().manual_seed(rank)
    return torch.empty(elements).uniform_(-1, 1, generator=generator).to(dtype)


def mine() -> torch.Tensor:
    return values(dist.get_rank())


def sum_in_network(dtype: torch.dtype, op: str) -> tuple[list[float], str]:
    tensor = values(dist.get_rank(), dtype)
    work = dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op), async_op=True)
    work.wait()
    return tensor.double().tolist(), str(explain(work))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("op", ["SUM", "AVG"])
def test_floats_are_summed_in_the_network(mocked: World, dtype: torch.dtype, op: str) -> None:
    results = mocked.run(sum_in_network, dtype, op)
    assert {reason for _, reason in results} == {Reason.SUMMED}
    assert all(numbers == results[0][0] for numbers, _ in results)
    total = sum(values(rank, dtype).double() for rank in range(mocked.size))
    expected = total / (mocked.size if op == "AVG" else 1)
    tolerance = torch.finfo(dtype).eps * mocked.size
    torch.testing.assert_close(torch.tensor(results[0][0]).double(), expected, atol=tolerance, rtol=tolerance)


def check_handle() -> None:
    tensor = mine()
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future()
    assert work.wait() is True
    assert work.is_completed()
    assert work.is_success()
    assert work.exception() is None
    assert work.result()[0].data_ptr() == tensor.data_ptr()
    assert [t.data_ptr() for t in future.wait()] == [tensor.data_ptr()]
    assert future.then(lambda f: f.value()[0].numel()).wait() == ELEMENTS


def test_a_handle_behaves_like_gloos(mocked: World) -> None:
    mocked.run(check_handle)


def compute_meanwhile() -> None:
    engine = MockEngine.current
    go = threading.Event()
    engine.faults = [Fault(until=go)]
    tensor = mine()
    work = dist.all_reduce(tensor, async_op=True)
    assert not work.is_completed()
    assert explain(work) is Reason.PENDING
    with pytest.raises(CollectiveTimeoutError, match="still under way"):
        work.wait(timedelta(milliseconds=1))
    with pytest.raises(RuntimeError, match="needs to be completed"):
        work.result()
    waiting = threading.Thread(target=work.wait)
    waiting.start()
    torch.mm(torch.ones(32, 32), torch.ones(32, 32))  # wait() of the other thread does not hold Python's lock
    go.set()
    waiting.join()
    work.wait()
    torch.testing.assert_close(tensor, sum(values(rank) for rank in range(dist.get_world_size())))


def test_a_collective_runs_beside_computation(mocked: World) -> None:
    mocked.run(compute_meanwhile)


def many_in_flight() -> None:
    tensors = [mine() * n for n in range(50)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    expected = sum(values(rank) for rank in range(dist.get_world_size()))
    for work in reversed(works):
        work.wait()
    for n, tensor in enumerate(tensors):
        torch.testing.assert_close(tensor, expected * n)


def test_many_collectives_at_once(mocked: World) -> None:
    mocked.run(many_in_flight)


def forget_the_tensor() -> None:
    engine = MockEngine.current
    go = threading.Event()
    engine.faults = [Fault(until=go)]
    works = [dist.all_reduce(mine(), async_op=True)]
    scribble = [torch.full((ELEMENTS,), float("nan")) for _ in range(100)]  # would take the memory if it were free
    go.set()
    future = works.pop().get_future()
    torch.testing.assert_close(future.wait()[0], sum(values(rank) for rank in range(dist.get_world_size())))
    assert len(scribble) == 100


def test_the_tensor_lives_as_long_as_its_collective(mocked: World) -> None:
    mocked.run(forget_the_tensor)


def nested_callbacks() -> None:
    def again(future: Any) -> torch.Tensor:
        work = dist.all_reduce(future.value()[0], async_op=True)
        result: torch.Tensor = work.get_future().wait()[0]
        return result

    # As PowerSGD's hook does for each bucket, and more of them at once than any fixed number of threads.
    futures = [dist.all_reduce(torch.ones(ELEMENTS), async_op=True).get_future().then(again) for _ in range(8)]
    size = dist.get_world_size()
    for future in futures:
        assert torch.equal(future.wait(), torch.full((ELEMENTS,), float(size * size)))


def test_a_callback_may_wait_for_another_collective(mocked: World) -> None:
    mocked.run(nested_callbacks)


def callback_that_raises() -> None:
    def bad(_future: Any) -> None:
        raise ValueError("the callback's own fault")

    work = dist.all_reduce(torch.ones(ELEMENTS), async_op=True)
    chained = work.get_future().then(bad)
    work.wait()
    with pytest.raises(Exception, match="the callback's own fault"):
        chained.wait()


def test_a_callback_that_raises_harms_only_its_future(mocked: World) -> None:
    mocked.run(callback_that_raises)


def odd_layouts() -> None:
    size = dist.get_world_size()
    matrix = values(dist.get_rank(), elements=24).reshape(4, 6)
    expected = sum(values(rank, elements=24).reshape(4, 6) for rank in range(size))
    for view in (
        lambda m: m.t(),
        lambda m: m[:, ::2],
        lambda m: m[1:3],
        lambda m: m.reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
    ):
        tensor = matrix.clone()
        part = view(tensor)
        dist.all_reduce(part)
        torch.testing.assert_close(part, view(expected))
    whole = matrix.clone()
    dist.all_reduce(whole[:, ::2])
    torch.testing.assert_close(whole[:, 1::2], matrix[:, 1::2])  # its neighbours are untouched
    transposed_somewhere = matrix.t().contiguous().t() if dist.get_rank() == 0 else matrix.clone()
    dist.all_reduce(transposed_somewhere)
    torch.testing.assert_close(transposed_somewhere, expected)  # where elements lie is each rank's own affair
    leaf = matrix.clone()[:, ::2].requires_grad_()
    with torch.no_grad():
        dist.all_reduce(leaf)


def test_tensors_of_any_strides_are_summed(mocked: World) -> None:
    mocked.run(odd_layouts)


def coalesced_together() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    tensors = [torch.full((2, 3), float(rank)), torch.full((5,), float(rank)), torch.full((4, 2), float(rank)).t()]
    work = dist.group.WORLD.allreduce_coalesced(tensors, dist.AllreduceCoalescedOptions())
    work.wait()
    assert explain(work) is Reason.SUMMED
    assert all(torch.equal(tensor, torch.full_like(tensor, sum(range(size)))) for tensor in tensors)
    before = MockEngine.current.submitted
    with dist._coalescing_manager():
        for tensor in tensors[:2]:
            dist.all_reduce(tensor)
    assert MockEngine.current.submitted == before + 1
    assert torch.equal(tensors[0], torch.full((2, 3), float(size * sum(range(size)))))


def test_coalesced_tensors_travel_together(mocked: World) -> None:
    mocked.run(coalesced_together)


def timeouts() -> list[int]:
    engine = MockEngine.current
    engine.timeouts_us.clear()
    dist.all_reduce(mine())
    options = dist.AllreduceOptions()
    options.timeout = timedelta(seconds=7)
    dist.group.WORLD.allreduce([mine()], options).wait()
    dist.set_timeout(timedelta(seconds=11))
    dist.all_reduce(mine())
    dist.set_timeout(timedelta(seconds=60))
    return engine.timeouts_us


def test_the_timeout_is_the_calls_or_the_groups(mocked: World) -> None:
    assert mocked.run(timeouts)[0] == [60_000_000, 7_000_000, 11_000_000]


def from_threads() -> None:
    # Each thread has a group of its own, as PyTorch asks for; only one has the network.
    gloo = dist.new_group(backend="gloo")
    tensors = [torch.ones(ELEMENTS), torch.ones(ELEMENTS)]
    other = threading.Thread(target=lambda: dist.all_reduce(tensors[1], group=gloo))
    other.start()
    dist.all_reduce(tensors[0])
    other.join()
    assert torch.equal(tensors[0], tensors[1])
    dist.destroy_process_group(gloo)


def test_groups_in_different_threads_do_not_disturb_each_other(mocked: World) -> None:
    mocked.run(from_threads)


def profiled() -> list[str]:
    with torch.profiler.profile() as profile:
        dist.all_reduce(mine())
    return [event.key for event in profile.key_averages()]


def test_the_profiler_sees_it(mocked: World) -> None:
    assert "wiresum:all_reduce" in mocked.run(profiled)[0]
