"""The models of `wiresum bench accuracy` give the bits of the network, and of Gloo's ring."""

from __future__ import annotations

import pytest
import torch.distributed as dist
from world import World

import torch
from wiresum.bench.accuracy.data import KINDS
from wiresum.bench.accuracy.sums import MAX_SEGMENT_BYTES, by_lanes, ring

PAYLOAD_BYTES = 352 * 4
"""A full packet of the fixture."""


def sums(elements: int) -> dict[str, bool]:
    """Whether sums of the ranks' tensors have the bits of their models."""
    tensors = KINDS["scales"](dist.get_world_size(), elements, seed=elements)
    group = dist.new_group(backend="gloo")
    found = {}
    for dtype, lanes in ((torch.bfloat16, "int16-le"), (torch.float32, "int32-le")):
        given = tensors.to(dtype)
        ours, theirs = given[dist.get_rank()].clone(), given[dist.get_rank()].clone()
        dist.all_reduce(ours)
        dist.all_reduce(theirs, group=group)
        found[f"{lanes} lanes"] = torch.equal(ours, by_lanes(given, lanes, PAYLOAD_BYTES))
        found[f"ring in {dtype}"] = torch.equal(theirs, ring(given))
    dist.destroy_process_group(group)
    return found


@pytest.mark.parametrize("elements", [1, 5, 7, 1000, 10_000, MAX_SEGMENT_BYTES * 3 + 1])
def test_models_have_the_bits_of_what_they_model(networked: World, elements: int) -> None:
    """The last has more than two segments for each of the three ranks of a ring."""
    for found in networked.run(sums, elements):
        assert found == dict.fromkeys(found, True)
