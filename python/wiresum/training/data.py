"""The demo's data: handwritten digits that scikit-learn ships, or CIFAR from its original files."""

from __future__ import annotations

import importlib.util
import io
import pickle
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import torch

TEST_SHARE = 5
"""One digit in five is kept for the test."""
DIGITS_FILE = ("datasets", "data", "digits.csv.gz")
"""1,797 lines of 64 pixels from 0 to 16 and the digit."""


@dataclass(frozen=True)
class Images:
    """Images as float32 tensors [N, C, H, W] in [0, 1] with int64 labels [N], split for training and test."""

    name: str
    classes: int
    train_images: torch.Tensor
    train_labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor


def load(data_dir: Path | None) -> Images:
    """Loads CIFAR-10 or CIFAR-100 from `data_dir`, or the 1,797 digits of scikit-learn if that is None.

    Raises:
        FileNotFoundError: `data_dir` holds none of the four names under which CIFAR is published.
    """
    if data_dir is None:
        return digits()
    for name, reader in CIFAR_READERS.items():
        for source in (data_dir / name, data_dir / f"{name.replace('-batches-py', '-python')}.tar.gz"):
            if source.exists():
                return reader(source)
    raise FileNotFoundError(
        f"{data_dir} has neither cifar-10-batches-py, cifar-100-python nor their .tar.gz; "
        "download one of them, or leave out --data-dir to use the digits that scikit-learn ships"
    )


def digits() -> Images:
    """The 8 × 8 digits of scikit-learn, in their order of publication, every fifth for the test.

    Raises:
        FileNotFoundError: scikit-learn is not installed.
    """
    # Importing scikit-learn takes each of the workers seconds of processor time; its data file is all that is needed.
    package = importlib.util.find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise FileNotFoundError("the digits are part of scikit-learn, which is missing: pip install scikit-learn")
    table = np.loadtxt(Path(package.submodule_search_locations[0], *DIGITS_FILE), delimiter=",", dtype=np.float32)
    images = torch.from_numpy(table[:, :-1] / 16).reshape(-1, 1, 8, 8)
    labels = torch.from_numpy(table[:, -1].astype(np.int64))
    test = torch.arange(len(labels)) % TEST_SHARE == 0
    return Images("digits", 10, images[~test], labels[~test], images[test], labels[test])


def cifar10(source: Path) -> Images:
    """CIFAR-10, Python version: five training batches and a test batch."""
    train = [read_batch(source, f"data_batch_{i}", b"labels") for i in range(1, 6)]
    images, labels = (torch.cat(parts) for parts in zip(*train, strict=True))
    return Images("CIFAR-10", 10, images, labels, *read_batch(source, "test_batch", b"labels"))


def cifar100(source: Path) -> Images:
    """CIFAR-100, Python version, with its fine labels."""
    train = read_batch(source, "train", b"fine_labels")
    return Images("CIFAR-100", 100, *train, *read_batch(source, "test", b"fine_labels"))


CIFAR_READERS: dict[str, Callable[[Path], Images]] = {"cifar-10-batches-py": cifar10, "cifar-100-python": cifar100}


def read_batch(source: Path, name: str, label_key: bytes) -> tuple[torch.Tensor, torch.Tensor]:
    """One published batch as images [N, 3, 32, 32] and labels [N]."""
    batch = ArraysOnly(io.BytesIO(read_member(source, name)), encoding="bytes").load()
    images = torch.from_numpy(np.asarray(batch[b"data"], dtype=np.float32) / 255).reshape(-1, 3, 32, 32)
    return images, torch.tensor(batch[label_key], dtype=torch.int64)


def read_member(source: Path, name: str) -> bytes:
    """The bytes of a file in a folder or a .tar.gz."""
    if source.is_dir():
        if not (source / name).is_file():
            raise FileNotFoundError(f"{source} has no file {name}: is it CIFAR's Python version?")
        return (source / name).read_bytes()
    with tarfile.open(source) as archive:
        member = next((m for m in archive if Path(m.name).name == name), None)
        content = archive.extractfile(member) if member else None
        if content is None:
            raise FileNotFoundError(f"{source} has no member {name}: is it CIFAR's Python version?")
        return content.read()


class ArraysOnly(pickle.Unpickler):
    """Reads the published pickles and nothing else: a data file must not be able to run code."""

    ALLOWED = frozenset({"_reconstruct", "ndarray", "dtype", "encode"})

    def find_class(self, module: str, name: str) -> Any:
        """Admits what NumPy arrays are made of."""
        if name in self.ALLOWED and module.split(".", maxsplit=1)[0] in {"numpy", "_codecs"}:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} does not belong in a CIFAR file")


def batches(
    images: Images, rank: int, world_size: int, batch_size: int, epoch: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """This rank's share of one shuffled epoch; every rank gets the same number of full batches."""
    order = torch.randperm(len(images.train_labels), generator=torch.Generator().manual_seed(epoch))
    mine = order[rank::world_size]
    for start in range(0, steps_per_epoch(images, world_size, batch_size) * batch_size, batch_size):
        index = mine[start : start + batch_size]
        yield images.train_images[index], images.train_labels[index]


def steps_per_epoch(images: Images, world_size: int, batch_size: int) -> int:
    """Full batches that every rank has."""
    return len(images.train_labels) // (world_size * batch_size)
