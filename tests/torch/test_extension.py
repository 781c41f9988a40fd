"""The C++ extension: found, refused when it does not fit, built anew only when it must be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wiresum.errors import ExtensionError
from wiresum.torch import build, extension
from wiresum.torch.reason import Reason


def test_it_has_pythons_reasons() -> None:
    assert [str(reason) for reason in Reason] == extension.load().REASONS
    assert all(reason.explanation for reason in Reason)


def test_nothing_is_built_when_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_compile", lambda **_options: pytest.fail("it was built again"))
    assert build.build() == extension.MODULE_PATH


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"torch": "1.7.0"}, "built for PyTorch 1.7.0, this is"),
        ({"python": "2.7"}, "built for Python 2.7, this is"),
        ({"sources": "0"}, "other sources"),
    ],
)
def test_one_that_does_not_fit_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: dict[str, str], words: str
) -> None:
    stale = replace(extension.current_stamp(), **change)
    monkeypatch.setattr(extension, "STAMP_PATH", tmp_path / "stamp.json")
    extension.write_stamp(stale)
    assert extension.read_stamp() == stale
    with pytest.raises(ExtensionError, match=words) as caught:
        extension.load()
    assert "python -m wiresum.torch.build" in str(caught.value)
    rebuilt: list[bool] = []
    monkeypatch.setattr(build, "_compile", lambda **_options: rebuilt.append(True) or tmp_path / "_c10d.so")
    monkeypatch.setattr(build, "_install", lambda *_arguments: None)
    build.build()
    assert rebuilt == [True]


@pytest.mark.parametrize("stamp", [None, "", "[]", '{"torch": "2"}'])
def test_a_missing_one_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stamp: str | None) -> None:
    monkeypatch.setattr(extension, "STAMP_PATH", tmp_path / "stamp.json")
    if stamp is not None:
        extension.STAMP_PATH.write_text(stamp)
    with pytest.raises(ExtensionError, match=r"has not been built.*python -m wiresum.torch.build"):
        extension.load()


def test_it_refuses_an_engine_of_another_version() -> None:
    import ctypes
    from datetime import timedelta

    import torch.distributed as dist

    gloo = dist.ProcessGroupGloo(dist.HashStore(), 0, 1)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    abi = (ctypes.c_uint32 * 8)(99)
    capsule = new(ctypes.addressof(abi), b"wiresum._native.engine_abi", None)
    another = new(ctypes.addressof(abi), b"another", None)
    connected = extension.load().connected
    with pytest.raises(RuntimeError, match="speaks version 99"):
        connected(gloo, gloo, timedelta(1), capsule, 1, 4, lambda: gloo, lambda: None)
    with pytest.raises(ValueError, match="incorrect name"):
        connected(gloo, gloo, timedelta(1), another, 1, 4, lambda: gloo, lambda: None)
