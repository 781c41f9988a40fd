"""Lightning over Wiresum, on CPUs: the strategy names the backend."""

import os

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy


class Classifier(lightning.LightningModule):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))

    def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
        pixels, labels = batch
        return torch.nn.functional.cross_entropy(self.layers(pixels), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


lightning.seed_everything(1)
data = torch.utils.data.TensorDataset(torch.randn(64, 64), torch.randint(0, 10, (64,)))
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=1,
    num_nodes=int(os.environ["WORLD_SIZE"]),
    strategy=DDPStrategy(process_group_backend="wiresum"),  # the one line
    max_epochs=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
model = Classifier()
trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=8))
total = sum(parameter.detach().double().sum().item() for parameter in model.parameters())
print(f"rank {trainer.global_rank}: parameters add up to {total!r}", flush=True)
