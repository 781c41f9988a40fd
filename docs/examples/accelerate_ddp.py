"""Hugging Face's accelerate over Wiresum, on CPUs: the group is made before `Accelerator`, which would ask for Gloo."""

import torch
import torch.distributed as dist
from accelerate import Accelerator

dist.init_process_group("wiresum")  # the one line: accelerate takes the group that is there
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
torch.manual_seed(1)
layers = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
data = torch.utils.data.TensorDataset(torch.randn(128, 256), torch.randint(0, 10, (128,)))
optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
batches = torch.utils.data.DataLoader(data, batch_size=8)
model, optimizer, batches = accelerator.prepare(layers, optimizer, batches)
for inputs, labels in batches:
    with accelerator.accumulate(model):
        accelerator.backward(torch.nn.functional.cross_entropy(model(inputs), labels))
        optimizer.step()
        optimizer.zero_grad()
total = sum(parameter.detach().double().sum().item() for parameter in model.parameters())
print(f"rank {dist.get_rank()}: parameters add up to {total!r}", flush=True)
dist.destroy_process_group()
