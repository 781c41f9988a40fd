"""A replica that may die and come back: torchft's DDP, summed by Wiresum. TORCHFT_LIGHTHOUSE names the lighthouse."""

import os
import socket
from datetime import timedelta
from typing import Any

from torch.distributed import TCPStore
from torchft import DistributedDataParallel, Manager, Optimizer

import torch
from wiresum.torch.torchft import ProcessGroupWiresum

STEPS = int(os.environ.get("STEPS", "20"))
seat = os.environ["WIRESUM_SEAT"]
host = os.environ.get("HOST") or socket.gethostbyname(socket.gethostname())  # where other replicas reach this one


def load(state: dict[str, Any]) -> None:
    layers.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


store = TCPStore(host, 0, is_master=True, wait_for_workers=False)
manager = Manager(
    pg=ProcessGroupWiresum(timeout=timedelta(seconds=30)),
    min_replica_size=1,
    load_state_dict=load,
    state_dict=lambda: {"model": layers.state_dict(), "optimizer": optimizer.state_dict()},
    replica_id=f"replica {seat}",
    store_addr=host,
    store_port=store.port,
    rank=0,
    world_size=1,
    hostname=host,
    timeout=timedelta(seconds=30),
)
torch.manual_seed(1)
layers = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
model = DistributedDataParallel(manager, layers)
optimizer = Optimizer(manager, torch.optim.AdamW(layers.parameters(), lr=1e-3))
while manager.current_step() < STEPS:
    torch.manual_seed(1000 * manager.current_step() + int(seat))
    optimizer.zero_grad()  # asks who is there for this step
    model(torch.randn(8, 256)).square().mean().backward()
    optimizer.step()  # if all of them have summed; else this step is done again
    total = sum(parameter.detach().double().sum().item() for parameter in layers.parameters())
    replicas = manager.num_participants()
    step = f"step {manager.current_step()} of {replicas} replicas"
    print(f"seat {seat}: {step}, parameters add up to {total!r}", flush=True)
manager.shutdown(wait=False)
