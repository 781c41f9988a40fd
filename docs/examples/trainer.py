"""Hugging Face's Trainer over Wiresum, on CPUs: the group is made before the arguments that would ask for Gloo."""

import tempfile

import torch
import torch.distributed as dist
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

dist.init_process_group("wiresum")  # the one line: Trainer and accelerate take the group that is there


class Sentences(torch.utils.data.Dataset):
    """Random words; a sentence's label is whether their numbers add up to an odd one."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> dict[str, object]:
        words = torch.randint(0, 64, (16,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": int(words.sum() % 2)}


torch.manual_seed(1)
shape = {"vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
model = BertForSequenceClassification(BertConfig(**shape, intermediate_size=128))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder, max_steps=4, per_device_train_batch_size=4, use_cpu=True, save_strategy="no", report_to=[]
    )
    Trainer(model, arguments, train_dataset=Sentences()).train()
total = sum(parameter.detach().double().sum().item() for parameter in model.parameters())
print(f"rank {dist.get_rank()}: parameters add up to {total!r}", flush=True)
dist.destroy_process_group()
