"""An FSDP2 training, and copies of several types, over the backend and over Gloo: prints what every rank found."""

import json

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

import torch
from torch import nn
from wiresum.torch import report

STEPS = 3
FEATURES, HIDDEN, CLASSES = 64, 300, 10
DTYPES = (torch.float32, torch.bfloat16, torch.int64)


def train(mesh: DeviceMesh) -> list[torch.Tensor]:
    """The whole parameters after a few steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(1 + dist.get_rank())
    for _ in range(STEPS):
        x, target = torch.randn(8, FEATURES), torch.randint(0, CLASSES, (8,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), target).backward()
        optimizer.step()
    return [parameter.full_tensor().detach() for parameter in model.parameters()]


def copies(group: dist.ProcessGroup) -> list[torch.Tensor]:
    """Gathered and broadcast bits of every type, Inf and NaN among them."""
    found = []
    for dtype in DTYPES:
        generator = torch.Generator().manual_seed(dist.get_rank())
        own = torch.randint(0, 256, (30_008,), generator=generator, dtype=torch.uint8).view(dtype)
        everyone = torch.empty(dist.get_world_size() * len(own), dtype=dtype)
        dist.all_gather_into_tensor(everyone, own, group)
        dist.broadcast(own, 1, group)
        found += [everyone.view(torch.uint8), own.view(torch.uint8)]
    return found


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("wiresum")
    gloo = dist.new_group(backend="gloo")
    ours, theirs = (
        train(dist.init_device_mesh("cpu", (dist.get_world_size(),))),
        train(DeviceMesh.from_group(gloo, "cpu")),
    )
    pairs = zip(copies(dist.group.WORLD), copies(gloo), strict=True)
    rows = report().groups[0].rows
    found = {
        "farthest": max(float((a - b).abs().max()) for a, b in zip(ours, theirs, strict=True)),
        "equal": [torch.equal(a, b) for a, b in pairs],
        "gathered": sum(row.collectives for row in rows if row.is_copied and row.collective.startswith("all_gather")),
        "scattered": sum(
            row.collectives for row in rows if row.is_summed and row.collective.startswith("reduce_scatter")
        ),
    }
    print(json.dumps(found), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
