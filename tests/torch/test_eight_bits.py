"""All-reduces by numbers of 8 bits: what they leave is kept, nobody's bits differ, and elsewhere sums are whole."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import torch.distributed as dist
from aggregator import networked
from torch.nn.parallel import DistributedDataParallel
from world import World

import torch
from torch import nn
from wiresum.plan.job import Job
from wiresum.torch import eight_bits, explain, report
from wiresum.torch.eight_bits import EightBits

RANKS = 4
ELEMENTS = 5000
"""Several packets, the last one not full."""
LARGE = 100_000
WIDTH = 64
JOBS = {
    "int32": Job(lanes="int32-le"),
    "int16": Job(lanes="int16-be"),
    "auto": Job(),
    "sealed": Job(sealed=True),
    "threads": Job(threads=2),
    "copies": Job(copies=True),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with networked(tmp_path_factory.mktemp("eight"), RANKS, Job()) as world:
        yield world


def values(rank: int, dtype: torch.dtype = torch.float32, elements: int = ELEMENTS) -> torch.Tensor:
    return torch.randn(elements, generator=torch.Generator().manual_seed(rank)).to(dtype)


def exact(dtype: torch.dtype = torch.float32, elements: int = ELEMENTS) -> torch.Tensor:
    return torch.stack([values(rank, dtype, elements).double() for rank in range(RANKS)]).sum(0)


def kept_and_summed(dtype: torch.dtype, elements: int = ELEMENTS) -> tuple[torch.Tensor, torch.Tensor, str, int]:
    """A sum, what this rank's numbers left, where it was made, and the bytes that this rank sent for it."""
    tensor, kept = values(dist.get_rank(), dtype, elements), torch.full((elements,), 7.0)
    before = report().groups[0].engine["bytes_sent"]
    work = eight_bits.all_reduce(tensor, dist.ReduceOp.SUM, kept=kept, async_op=True)
    assert work is not None
    work.wait()
    sent = report().groups[0].engine["bytes_sent"] - before
    return tensor.double(), kept.double(), str(explain(work)), sent


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_what_is_not_in_a_sum_is_kept(world: World, dtype: torch.dtype) -> None:
    outcomes = world.run(kept_and_summed, dtype)
    total, reasons = outcomes[0][0], {outcome[2] for outcome in outcomes}
    assert reasons == {"summed"}
    assert all(torch.equal(total, outcome[0]) for outcome in outcomes), "the same bits on every rank"
    missing = exact(dtype) - total
    left = torch.stack([outcome[1] for outcome in outcomes]).sum(0)
    assert 0.01 < missing.abs().max() < 1, "8 bits are few, and enough"
    # A sum of float16 or bfloat16 is rounded once more.
    assert (missing - left).abs().max() < (1e-5 if dtype is torch.float32 else 0.05)


@pytest.mark.parametrize("job", JOBS)
def test_every_kind_of_lane_has_room_for_numbers_of_8_bits(job: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with networked(tmp_path_factory.mktemp(job), RANKS, JOBS[job]) as world:
        outcomes = world.run(kept_and_summed, torch.float32, LARGE)
    left = torch.stack([outcome[1] for outcome in outcomes]).sum(0)
    for total, _, reason, sent in outcomes:
        assert reason == "summed"
        assert (exact(elements=LARGE) - total - left).abs().max() < 1e-5
        assert sent < 1.3 * LARGE, "about a byte an element"


def means_by_chance() -> tuple[torch.Tensor, bool]:
    """The mean of many sums by chance, and whether all were alike."""
    mean, sums = torch.zeros(ELEMENTS, dtype=torch.float64), set()
    for _ in range(60):
        tensor = values(dist.get_rank())
        eight_bits.all_reduce(tensor, dist.ReduceOp.AVG)
        sums.add(tensor.numpy().tobytes())
        mean += tensor.double() / 60
    return mean, len(sums) == 1


def test_chance_is_right_in_the_mean(world: World) -> None:
    once = kept_and_summed
    off = (exact() - world.run(once, torch.float32)[0][0]).abs().mean() / RANKS
    for mean, are_alike in world.run(means_by_chance):
        assert not are_alike
        assert (mean - exact() / RANKS).abs().mean() < off / 3


def of_few_elements() -> tuple[float, float, str]:
    total, kept, reason, _ = kept_and_summed(torch.float32, 10)
    return float((total - exact(elements=10)).abs().max()), float(kept.abs().max()), reason


def test_what_goes_another_way_is_whole_and_leaves_nothing(world: World) -> None:
    for off, kept, reason in world.run(of_few_elements):
        assert (kept, reason) == (0, "shared")
        assert off < 1e-5


def with_nan() -> tuple[int, float, str]:
    tensor, kept = values(dist.get_rank()), torch.full((ELEMENTS,), 7.0)
    tensor[7] = float("nan")
    work = eight_bits.all_reduce(tensor, dist.ReduceOp.SUM, kept=kept, async_op=True)
    assert work is not None
    work.wait()
    return int(tensor.isnan().sum()), float(kept.abs().max()), str(explain(work))


def test_nan_comes_out_as_nan_and_leaves_nothing(world: World) -> None:
    assert world.run(with_nan) == [(1, 0.0, "not_finite")] * RANKS


def by_gloo() -> tuple[float, float, list[str]]:
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("wiresum.torch").addHandler(handler)
    group = dist.new_group(backend="gloo")
    tensor, kept = values(dist.get_rank()), torch.full((ELEMENTS,), 7.0)
    for _ in range(2):
        tensor = values(dist.get_rank())
        eight_bits.all_reduce(tensor, dist.ReduceOp.SUM, group, kept=kept)
    return float((tensor - exact()).abs().max()), float(kept.abs().max()), messages


def test_other_backends_sum_at_full_width_and_it_is_said_once(world: World) -> None:
    said = "sums of 8 bits travel at full width: the group's backend is `gloo`, and `wiresum` alone sums 8 bits"
    for off, kept, messages in world.run(by_gloo):
        assert off < 1e-5
        assert (kept, messages) == (0, [said])


def of_another_length() -> None:
    eight_bits.all_reduce(values(0), kept=torch.zeros(3))


def test_room_that_does_not_fit_is_refused(world: World) -> None:
    with pytest.raises(Exception, match="`kept` has to be a contiguous float32 tensor of 5000 elements"):
        world.run(of_another_length)


REFUSED = {
    "int64": torch.zeros(10, dtype=torch.int64),
    "int32": torch.zeros(ELEMENTS, dtype=torch.int32),
    "uint8": torch.zeros(10, dtype=torch.uint8),
    "bool": torch.zeros(10, dtype=torch.bool),
    "float64": torch.zeros(ELEMENTS, dtype=torch.float64),
    "complex64": torch.zeros(10, dtype=torch.complex64),
    "float8_e5m2": torch.zeros(10, dtype=torch.float8_e5m2),
    "float32 in the layout sparse_coo": torch.zeros(10).to_sparse(),
}


def of_refused_types() -> tuple[list[str], int, float]:
    """The errors, how many bytes were sent for them, and the next sum."""
    before, said = report().groups[0].engine["bytes_sent"], []
    for tensor in REFUSED.values():
        for kept in (None, torch.zeros(ELEMENTS)):
            try:
                eight_bits.all_reduce(tensor, dist.ReduceOp.SUM, kept=kept)
            except ValueError as refused:
                said.append(str(refused))
    sent = report().groups[0].engine["bytes_sent"] - before
    ones = torch.ones(10)
    eight_bits.all_reduce(ones, dist.ReduceOp.SUM)
    return said, sent, float(ones.sum())


def test_other_types_are_refused_on_every_rank(world: World) -> None:
    for said, sent, total in world.run(of_refused_types):
        assert said == [
            f"eight_bits.all_reduce takes dense tensors of float32, float16, bfloat16, and not {name}; "
            "convert the tensor, or use dist.all_reduce"
            for name in REFUSED
            for _ in range(2)
        ]
        assert (sent, total) == (0, 10 * RANKS)


def summed_by_8_bits() -> int:
    rows = report().groups[0].rows
    return sum(row.collectives for row in rows if row.collective == "all_reduce_int8" and row.is_summed)


def train(hooked: bool) -> tuple[float, list[int], int]:
    """The loss at the end of a training, the parameters' bits, and how many sums were of 8 bits."""
    before = summed_by_8_bits()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 8))
    wrapped = DistributedDataParallel(model)
    if hooked:
        wrapped.register_comm_hook(EightBits(), EightBits.hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    teacher = torch.randn(WIDTH, 8, generator=torch.Generator().manual_seed(99)) / WIDTH**0.5
    generator = torch.Generator().manual_seed(dist.get_rank())
    loss = torch.zeros(())
    for _ in range(150):
        batch = torch.randn(16, WIDTH, generator=generator)
        loss = (wrapped(batch) - batch @ teacher).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.all_reduce(loss.detach_(), op=dist.ReduceOp.AVG)
    bits = [bits for p in model.parameters() for bits in p.detach().view(torch.int32).flatten().tolist()]
    return loss.item(), bits, summed_by_8_bits() - before


def test_a_training_ends_where_that_of_whole_gradients_does(world: World) -> None:
    whole, short, again = world.run(train, False), world.run(train, True), world.run(train, True)
    assert all(outcome[1] == short[0][1] for outcome in short), "the same bits on every rank"
    assert [outcome[1] for outcome in again] == [outcome[1] for outcome in short], "and again"
    assert (whole[0][2], short[0][2]) == (0, 150)
    assert whole[0][0] < 0.3
    assert short[0][0] == pytest.approx(whole[0][0], rel=0.05)
