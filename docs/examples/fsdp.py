"""FSDP2 over Wiresum, on CPUs: the group names the backend, and `overlap` lets its collectives run at once."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from wiresum.torch.fsdp import overlap

dist.init_process_group("wiresum")
torch.manual_seed(1)
model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()) for _ in range(4)))
for block in (*model, model):
    fully_shard(block)
overlap(model)  # of no use on GPUs, where FSDP2 overlaps by itself
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(2 + dist.get_rank())
for _ in range(8):
    model(torch.randn(8, 256)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
total = sum(parameter.full_tensor().double().sum().item() for parameter in model.parameters())
print(f"rank {dist.get_rank()}: parameters add up to {total!r}", flush=True)
dist.destroy_process_group()
