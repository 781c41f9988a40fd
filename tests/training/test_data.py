"""The demo's data, against scikit-learn's own reader and against small files in CIFAR's original format."""

from __future__ import annotations

import io
import pickle
import tarfile

import numpy as np
import pytest
from sklearn.datasets import load_digits

import torch
from wiresum.training import data

IMAGES_PER_BATCH = 3


def test_digits_are_those_of_scikit_learn():
    bunch = load_digits()
    digits = data.load(None)
    assert len(digits.train_labels) + len(digits.test_labels) == len(bunch.target) == 1797
    np.testing.assert_array_equal(digits.test_images[:, 0] * 16, bunch.images[::5].astype(np.float32))
    np.testing.assert_array_equal(digits.test_labels, bunch.target[::5])


def batch(label_key, first):
    rows = np.arange(IMAGES_PER_BATCH * 3072, dtype=np.uint32).astype(np.uint8).reshape(IMAGES_PER_BATCH, 3072)
    return {b"data": rows, label_key: [first + i for i in range(IMAGES_PER_BATCH)]}


def cifar10_files():
    return {f"data_batch_{i}": batch(b"labels", i) for i in range(1, 6)} | {"test_batch": batch(b"labels", 0)}


def write_folder(folder, files):
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))


def test_cifar10_from_its_folder(tmp_path):
    write_folder(tmp_path / "cifar-10-batches-py", cifar10_files())
    images = data.load(tmp_path)
    assert images.name == "CIFAR-10"
    assert images.train_images.shape == (15, 3, 32, 32)
    assert images.train_labels[:4].tolist() == [1, 2, 3, 2]
    assert images.train_images.max() <= 1
    assert images.train_images[0, 0, 0, 5] == pytest.approx(5 / 255)


def test_cifar100_from_its_archive(tmp_path):
    files = {"train": batch(b"fine_labels", 10), "test": batch(b"fine_labels", 20)}
    with tarfile.open(tmp_path / "cifar-100-python.tar.gz", "w:gz") as archive:
        for name, content in files.items():
            raw = pickle.dumps(content, protocol=2)
            member = tarfile.TarInfo(f"cifar-100-python/{name}")
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    images = data.load(tmp_path)
    assert (images.name, images.classes) == ("CIFAR-100", 100)
    assert images.test_labels.tolist() == [20, 21, 22]


def test_a_folder_without_cifar_says_what_it_should_hold(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cifar-10-batches-py.*leave out --data-dir"):
        data.load(tmp_path)


class Malicious:
    def __reduce__(self):
        return (print, ("this must not run",))


def test_a_data_file_cannot_run_code(tmp_path, capsys):
    write_folder(tmp_path / "cifar-10-batches-py", {"data_batch_1": Malicious()})
    with pytest.raises(pickle.UnpicklingError, match="does not belong"):
        data.load(tmp_path)
    assert "this must not run" not in capsys.readouterr().out


def test_ranks_share_an_epoch_without_overlap():
    images = data.load(None)
    steps = data.steps_per_epoch(images, 4, 32)
    shares = [[x for x, _ in data.batches(images, rank, 4, 32, epoch=3)] for rank in range(4)]
    assert [len(share) for share in shares] == [steps] * 4
    again = [x for x, _ in data.batches(images, 2, 4, 32, epoch=3)]
    assert all(torch.equal(a, b) for a, b in zip(again, shares[2], strict=True))
    assert not torch.equal(shares[0][0], shares[1][0])
