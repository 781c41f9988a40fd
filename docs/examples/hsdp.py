"""HSDP over Wiresum, on CPUs: two replicas of the model, each sharded over half of the ranks."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("wiresum")
mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("replicas", "shards"))
torch.manual_seed(1)
model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()) for _ in range(4)))
for block in (*model, model):
    fully_shard(block, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(2 + dist.get_rank())
for _ in range(8):
    model(torch.randn(8, 256)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
total = sum(parameter.full_tensor().double().sum().item() for parameter in model.parameters())
print(f"rank {dist.get_rank()}: parameters add up to {total!r}", flush=True)
dist.destroy_process_group()
