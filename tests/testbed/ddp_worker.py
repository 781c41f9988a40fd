"""An ordinary DDP training that knows nothing of Wiresum but the backend's name; prints a digest of what it learns."""

import hashlib

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch
from torch import nn

STEPS = 3
FEATURES, HIDDEN, CLASSES = 64, 300, 10


def train(group: dist.ProcessGroup | None = None) -> str:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
    wrapped = DistributedDataParallel(model, process_group=group)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(1 + dist.get_rank())
    for _ in range(STEPS):
        x, target = torch.randn(8, FEATURES), torch.randint(0, CLASSES, (8,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(wrapped(x), target).backward()
        optimizer.step()
    learned = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    return hashlib.sha256(learned).hexdigest()


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("wiresum")
    print(train(), flush=True)
    dist.destroy_process_group()
