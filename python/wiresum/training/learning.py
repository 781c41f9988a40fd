"""What a synchronous training learns, round by round, apart from how long its rounds take.

Sums in the network are exact, so all methods that sum every worker's gradient in every round have the same loss and
accuracy after the same number of rounds; only their clocks differ. So a training is run once, and each method's times
are put under it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from wiresum.training import data
from wiresum.training.learned import Learned, Training
from wiresum.training.step import step

HIDDEN = 128
LOSS_MEMORY = 0.8
"""What is kept of the mean loss so far: single rounds are noisy."""


def network(images: data.Images) -> nn.Module:
    """One hidden layer; 9,610 parameters for digits."""
    pixels = images.train_images[0].numel()
    return nn.Sequential(nn.Flatten(), nn.Linear(pixels, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, images.classes))


def learn(training: Training, progress: Callable[[int], None] = lambda rounds: None) -> Learned:
    """Trains in this process; the mean gradient of n workers' batches is that of their union.

    Args:
        training: what to train.
        progress: is told how many rounds are done.

    Raises:
        FileNotFoundError: scikit-learn, which has the data, is not installed.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # Tensors are small: several threads only wait for each other.
    try:
        return _learn(training, progress)
    finally:
        torch.set_num_threads(threads)


def _learn(training: Training, progress: Callable[[int], None]) -> Learned:
    images = data.digits()
    torch.manual_seed(training.seed)
    model = network(images)
    optimizer = torch.optim.SGD(model.parameters(), lr=training.learning_rate)
    losses: list[float] = []
    accuracies: list[float] = []
    for number in range(1, training.rounds + 1):
        drawn = torch.randint(len(images.train_labels), (training.workers * training.batch_size,))
        loss = step(model, optimizer, images.train_images[drawn], images.train_labels[drawn])
        losses.append(loss if not losses else LOSS_MEMORY * losses[-1] + (1 - LOSS_MEMORY) * loss)
        accuracies.append(_accuracy(model, images))
        progress(number)
    return Learned(losses, accuracies)


def _accuracy(model: nn.Module, images: data.Images) -> float:
    with torch.no_grad():
        return float((model(images.test_images).argmax(1) == images.test_labels).float().mean())
