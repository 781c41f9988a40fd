"""DDP over Wiresum with what trainings add: a compiled model, bfloat16 autocast, accumulated gradients, clipping."""

import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, ACCUMULATED = 4, 3

dist.init_process_group("wiresum")  # the one line
torch.manual_seed(1)
layers = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
model = DistributedDataParallel(layers)
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(2 + dist.get_rank())
for _ in range(STEPS):
    for part in range(ACCUMULATED):
        is_last = part == ACCUMULATED - 1
        # DDP sums gradients in the last backward pass alone.
        with contextlib.nullcontext() if is_last else model.no_sync():
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = compiled(torch.randn(8, 256)).square().mean() / ACCUMULATED
            loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
total = sum(parameter.detach().double().sum().item() for parameter in model.parameters())
print(f"rank {dist.get_rank()}: parameters add up to {total!r}", flush=True)
dist.destroy_process_group()
