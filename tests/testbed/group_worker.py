"""A rank of `groups.Ranks`: one group of the backend after another, as their plans come, in one process.

One line of JSON on standard input for each plan: the file, elements, seconds until a collective is late. One line of
JSON on standard output for the start and for each plan.
"""

import json
import os
import sys
from datetime import timedelta

import torch.distributed as dist
from ddp_worker import train

import torch

LARGEST = 7
"""Largest of the whole numbers that are summed."""
ROUNDING = 1e-6
"""Tolerance of a sum that is scaled; sums of whole numbers that differ, differ by more."""


def contribution(rank, elements):
    return ((torch.arange(elements) + rank) % (LARGEST + 1)).float()


def serve(elements, timeout_s):
    """Sums in a group of its own, one for each line until that says to leave: whether it is right, or the error.

    The line "train" trains in that group, and is answered with a digest of what was learned.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(backend="wiresum", timeout=timedelta(seconds=timeout_s))
    answer({"joined": rank})
    for line in sys.stdin:
        if line.strip() == "leave":
            break
        if line.strip() == "train":
            answer({"learned": train(group)})
            continue
        tensor = contribution(rank, elements)
        # "sum", or "sum without" a rank that is late: then the others' sum stands for that of all.
        there = [other for other in range(ranks) if str(other) not in line.split()[2:]]
        expected = sum(contribution(other, elements) for other in there) * (ranks / len(there))
        try:
            dist.all_reduce(tensor, group=group)
            is_close = torch.allclose(tensor, expected, rtol=ROUNDING, atol=0)
            is_right = is_close if len(there) < ranks else torch.equal(tensor, expected)
            answer({"right": is_right, "error": None})
        except RuntimeError as error:
            answer({"right": False, "error": str(error)})
    dist.destroy_process_group(group)
    answer({"left": rank})


def answer(what):
    print(json.dumps(what), flush=True)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    answer({"started": dist.get_rank()})
    for line in sys.stdin:
        asked = json.loads(line)
        os.environ["WIRESUM_PLAN"] = asked["plan"]
        serve(asked["elements"], asked["timeout_s"])


if __name__ == "__main__":
    main()
