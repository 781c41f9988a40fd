"""A worker of `wiresum bench elastic` under torchft's manager, with our group or with torchft's own of Gloo."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

from torch._C._distributed_c10d import TCPStore
from torchft import DistributedDataParallel, Manager, Optimizer
from torchft.checkpointing import HTTPTransport
from torchft.process_group import ProcessGroup, ProcessGroupGloo

from wiresum.bench.elastic.host import Task, own_address
from wiresum.bench.elastic.steps import Training, say
from wiresum.torch.torchft import NotesErrors, ProcessGroupWiresum

TIMEOUT = timedelta(seconds=20)


class Checkpoints(HTTPTransport[Any]):  # type: ignore[misc]  # torchft has no types
    """Parameters for replicas that come back, by address: hosts of a testbed have no names."""

    def metadata(self) -> str:
        """Where they are."""
        return str(super().metadata()).replace(socket.gethostname(), own_address())


class Gloo(NotesErrors, ProcessGroupGloo):  # type: ignore[misc]
    """torchft's own group, which is the rival."""


def main() -> None:
    """Trains under the manager."""
    task, address = Task.told(), own_address()
    training = Training()
    store = TCPStore(address, 0, is_master=True, wait_for_workers=False)

    def load(state: dict[str, Any]) -> None:
        training.layers.load_state_dict(state["model"])

    group: ProcessGroup = ProcessGroupWiresum(TIMEOUT) if task.by == "torchft" else Gloo(TIMEOUT)
    manager = Manager(
        pg=group, min_replica_size=1, load_state_dict=load,
        state_dict=lambda: {"model": training.layers.state_dict()}, replica_id=f"seat {os.environ['WIRESUM_SEAT']}",
        store_addr=address, store_port=store.port, rank=0, world_size=1, hostname=address, timeout=TIMEOUT,
        checkpoint_transport=Checkpoints(TIMEOUT, num_chunks=0),
    )  # fmt: skip
    model = DistributedDataParallel(manager, training.layers)
    optimizer = Optimizer(manager, training.optimizer)
    while not Path(task.stop_file).exists():
        training.steps = manager.current_step()
        optimizer.zero_grad()
        try:
            training.backward(model)
        except (AssertionError, AttributeError, RuntimeError) as error:  # torchft's hook of DDP, after an error
            manager.report_error(error)
        if (failure := manager.errored() or group.errored()) is not None:
            say(lost=str(failure)[:300])
        optimizer.step()
        if manager.current_step() > training.steps:
            training.steps = manager.current_step()
            training.say_step(manager._quorum_id, manager.num_participants())
    manager.shutdown(wait=False)
    os._exit(0)  # threads of torchft may wait for replicas that have ended


if __name__ == "__main__":
    main()
