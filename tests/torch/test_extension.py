"""The C++ extension: found where it was shipped, else in the cache, else built once; never one that does not fit."""

from __future__ import annotations

import os
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest

import torch
from wiresum.errors import ExtensionError
from wiresum.torch import build, extension
from wiresum.torch.reason import Reason


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Path, Path]:
    """An empty package and an empty cache, and no extension loaded."""
    package, cache = tmp_path / "package", tmp_path / "cache" / "wiresum"
    package.mkdir()
    monkeypatch.setattr(extension, "PACKAGE_DIRECTORY", package)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delitem(sys.modules, extension.MODULE, raising=False)
    return package, cache


def stub_compiler(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A compiler that takes no time; returns the folders in which it was called."""
    calls: list[Path] = []

    def compile_(scratch: Path, **_options: bool) -> Path:
        calls.append(scratch)
        made = scratch / "_c10d.so"
        made.write_bytes(b"an extension")
        return made

    monkeypatch.setattr(build, "_compile", compile_)
    return calls


def test_it_has_pythons_reasons() -> None:
    assert [str(reason) for reason in Reason] == extension.load().REASONS
    assert all(reason.explanation for reason in Reason)


def test_a_name_says_what_it_fits_and_nothing_finer() -> None:
    name = extension.file_name()
    assert f"torch{'.'.join(torch.__version__.split('.')[:2])}-" in name
    assert name.endswith(sysconfig.get_config_var("EXT_SUFFIX"))
    patch = sys.version.split()[0]
    assert patch not in name
    assert torch.__version__ not in name


def test_nothing_is_built_when_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = stub_compiler(monkeypatch)
    assert build.build() == extension.find()
    assert calls == []


@pytest.mark.parametrize(
    "change",
    [
        lambda monkeypatch: monkeypatch.setattr(metadata, "version", lambda _name: "1.7.0"),
        lambda monkeypatch: monkeypatch.setattr(extension, "_sources", lambda: "0" * extension.DIGEST_LEN),
        lambda monkeypatch: monkeypatch.setattr(sysconfig, "get_config_var", lambda _name: ".cpython-27.so"),
    ],
    ids=["torch", "sources", "python"],
)
def test_one_for_something_else_is_not_found(monkeypatch: pytest.MonkeyPatch, folders: object, change: object) -> None:
    stub_compiler(monkeypatch)
    before = build.build(extension.PACKAGE_DIRECTORY)
    assert extension.find() == before
    change(monkeypatch)  # type: ignore[operator]
    assert extension.find() is None


def test_the_shipped_one_comes_before_the_cached(monkeypatch: pytest.MonkeyPatch, folders: tuple[Path, Path]) -> None:
    package, cache = folders
    stub_compiler(monkeypatch)
    cached = build.build(cache)
    assert extension.find() == cached
    shipped = build.build(package)
    assert extension.find() == shipped


def test_it_is_built_once_in_the_cache_and_says_so(
    monkeypatch: pytest.MonkeyPatch, folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    calls = stub_compiler(monkeypatch)
    for _ in range(2):
        with pytest.raises(ExtensionError, match="cannot be loaded"):  # the stub is no library
            extension.load()
    assert calls == [folders[1] / ".build"]
    assert capsys.readouterr().err.count("building the PyTorch extension") == 1


@pytest.mark.parametrize("failure", [RuntimeError("Ninja is required"), PermissionError(13, "Permission denied")])
def test_where_none_can_be_built_the_error_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, folders: object, failure: Exception
) -> None:
    def fail(*_arguments: object, **_options: object) -> Path:
        raise failure

    monkeypatch.setattr(build, "_compile", fail)
    with pytest.raises(ExtensionError, match=r"(Ninja is required|Permission denied).*python -m wiresum.torch.build"):
        extension.load()


def test_a_training_that_builds_keeps_its_environment(monkeypatch: pytest.MonkeyPatch, folders: object) -> None:
    from torch.utils import cpp_extension

    seen: list[str] = []

    def load(*, build_directory: str, **_options: object) -> None:
        seen.append(os.environ["PATH"])
        (Path(build_directory) / "_c10d.so").write_bytes(b"an extension")

    monkeypatch.setattr(cpp_extension, "load", load)
    monkeypatch.delenv("MAX_JOBS", raising=False)
    before = dict(os.environ)
    build.build(extension.cache_directory())
    assert seen[0] != before["PATH"]
    assert dict(os.environ) == before


def test_a_source_tree_keeps_one_and_a_cache_all(monkeypatch: pytest.MonkeyPatch, folders: tuple[Path, Path]) -> None:
    stub_compiler(monkeypatch)
    package, cache = folders
    for folder in folders:
        build.build(folder)
    monkeypatch.setattr(extension, "_sources", lambda: "0" * extension.DIGEST_LEN)
    for folder in folders:
        build.build(folder)
    assert [len(list(folder.glob("_c10d*.so"))) for folder in (package, cache)] == [1, 2]


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
        connected(
            gloo, gloo, timedelta(1), capsule, 1, 4, 4, False, lambda: gloo, lambda: None, None, None, print, print
        )
    with pytest.raises(ValueError, match="incorrect name"):
        connected(
            gloo, gloo, timedelta(1), another, 1, 4, 4, False, lambda: gloo, lambda: None, None, None, print, print
        )


def test_a_home_that_cannot_be_written_is_told_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, folders: object
) -> None:
    stub_compiler(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    with pytest.raises(ExtensionError, match=r"/proc/none.*Set XDG_CACHE_HOME to a folder that can be written"):
        extension.load()
