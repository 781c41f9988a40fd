"""What workers of `wiresum bench elastic` train, and what they say of it: one JSON object a line."""

from __future__ import annotations

import json
import os
import time

import torch
from torch import nn
from wiresum.bench.kills.worker import BATCH, checksum, dense_network
from wiresum.training import data


def say(**fields: object) -> None:
    """Prints fields, with this worker's seat, its process and the time (monotonic seconds)."""
    seen = {"seat": int(os.environ["WIRESUM_SEAT"]), "pid": os.getpid(), "at": time.monotonic(), **fields}
    print(json.dumps(seen), flush=True)


class Training:
    """Dense layers over the digits, without state but the parameters and the number of the step."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.images = data.load(None)
        self.layers: nn.Module = dense_network(self.images)
        self.optimizer = torch.optim.SGD(self.layers.parameters(), lr=0.05)
        self.steps = 0
        self._seat = int(os.environ["WIRESUM_SEAT"])

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """This worker's images and labels of the next step, whichever life of it asks."""
        chance = torch.Generator().manual_seed(1000 * self.steps + self._seat)
        chosen = torch.randint(len(self.images.train_images), (BATCH,), generator=chance)
        return self.images.train_images[chosen], self.images.train_labels[chosen]

    def backward(self, model: nn.Module) -> None:
        """Forward and backward of the next step."""
        pixels, labels = self.batch()
        torch.autograd.backward(nn.functional.cross_entropy(model(pixels), labels))

    def say_step(self, epoch: int, members: int) -> None:
        """Says what the parameters are after a step."""
        say(step=self.steps, checksum=checksum(self.layers), epoch=epoch, members=members)
