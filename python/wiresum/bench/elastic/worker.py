"""A worker of `wiresum bench elastic` whose group is made anew by c10d's `reconfigure`."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from torch._C._distributed_c10d import HashStore, ProcessGroup, ReconfigureOptions, Store, TCPStore
from torch.nn.parallel import DistributedDataParallel

import torch
from wiresum.bench.elastic.host import Task
from wiresum.bench.elastic.membership import await_epoch, is_changing, tell
from wiresum.bench.elastic.steps import Training, say

MEET_S = 10.0
"""For members to meet; one that dies at that moment costs so much."""


def main() -> None:
    """Trains in one group after the other."""
    task, seat = Task.told(), int(os.environ["WIRESUM_SEAT"])
    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    training = Training()
    dist.init_process_group(
        "wiresum", store=HashStore(), rank=seat, world_size=task.workers, enable_reconfigure=True,
        timeout=timedelta(seconds=MEET_S),
    )  # fmt: skip
    group = dist.group.WORLD
    assert group is not None
    handle, epoch, is_over = group.get_reconfigure_handle(), 0, False
    while not is_over:
        tell(store, "announced", seat=seat, life=int(os.environ["LIFE"]), handle=handle, steps=training.steps)
        try:
            epoch = meet(group, store, epoch, handle)
            is_over = train(task, training, group, store, epoch)
        except RuntimeError as error:
            training.optimizer.zero_grad()
            say(lost=str(error)[:300])
    dist.destroy_process_group()


def meet(group: ProcessGroup, store: Store, epoch: int, handle: str) -> int:
    """Has the members of the next epoch meet; its number."""
    following = await_epoch(store, epoch, handle)
    options = ReconfigureOptions()
    options.uuid, options.handles, options.timeout = following.number, following.handles, timedelta(seconds=MEET_S)
    group.reconfigure(options).wait()
    return following.number


def train(task: Task, training: Training, group: ProcessGroup, store: Store, epoch: int) -> bool:
    """Trains until the members change, or all shall end; whether they shall.

    Raises:
        RuntimeError: a collective failed.
    """
    steps = torch.tensor([training.steps])
    dist.broadcast(steps, 0)  # of the member who has done most
    training.steps = int(steps)
    model = DistributedDataParallel(training.layers, gradient_as_bucket_view=True)  # takes that member's parameters
    while True:
        told = torch.tensor([int(Path(task.stop_file).exists()), int(is_changing(store, epoch))])
        dist.all_reduce(told, op=dist.ReduceOp.MAX)
        if any(told.tolist()):
            return bool(told[0])
        training.optimizer.zero_grad()
        training.backward(model)
        training.optimizer.step()
        training.steps += 1
        training.say_step(epoch, group.size())


if __name__ == "__main__":
    main()
