"""A rival: rows are hashed to ranks, summed there, and gathered; ZEN's scheme, over Gloo.

As every rank sums a fair share of the rows whatever their popularity, no link is fuller than the others ("Zen:
Near-Optimal Sparse Tensor Synchronization for Distributed DNN Training", OSDI 2025).
"""

from __future__ import annotations

import torch.distributed as dist

import torch

KEY_TYPE = torch.int32
"""Half the bytes of torch's indices; a trace's keys fit."""
FACTOR = 2_654_435_761
"""Knuth's multiplicative hash: 2³² over the golden ratio."""


def owners(keys: torch.Tensor, ranks: int) -> torch.Tensor:
    """The rank that sums each key."""
    return ((keys.long() * FACTOR & 0xFFFFFFFF) >> 8) % ranks


def all_reduce(tensor: torch.Tensor) -> None:
    """Replaces a sparse tensor, one dimension of which is sparse, by the sum of all ranks."""
    merged = tensor.coalesce()
    keys, values = exchanged(merged.indices()[0], merged.values())
    own, places = torch.unique(keys, return_inverse=True)
    sums = torch.zeros(len(own), values.shape[1]).index_add_(0, places, values)
    keys, values = gathered(own, sums)
    order = keys.argsort()
    keys = keys[order].long()[None]
    result = torch.sparse_coo_tensor(keys, values[order], tensor.shape, is_coalesced=True, check_invariants=False)
    tensor.copy_(result)


def exchanged(keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Sends each row to its owner; the rows of this rank, from all."""
    owner = owners(keys, dist.get_world_size())
    order = owner.argsort(stable=True)
    sent = torch.bincount(owner, minlength=dist.get_world_size())
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    into, out_of = received.tolist(), sent.tolist()
    own_keys = torch.empty(sum(into), dtype=KEY_TYPE)
    own_values = torch.empty(sum(into), values.shape[1])
    dist.all_to_all_single(own_keys, keys[order].to(KEY_TYPE), into, out_of)
    dist.all_to_all_single(own_values, values[order], into, out_of)
    return own_keys, own_values


def gathered(keys: torch.Tensor, sums: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows of all ranks; each sends its own to every other one, as they differ in number."""
    ranks = dist.get_world_size()
    counts = torch.empty(ranks, dtype=torch.int64)
    dist.all_gather_into_tensor(counts, torch.tensor([len(keys)]))
    into, out_of = counts.tolist(), [len(keys)] * ranks
    all_keys = torch.empty(sum(into), dtype=KEY_TYPE)
    all_sums = torch.empty(sum(into), sums.shape[1])
    dist.all_to_all_single(all_keys, keys.repeat(ranks), into, out_of)
    dist.all_to_all_single(all_sums, sums.repeat(ranks, 1), into, out_of)
    return all_keys, all_sums
