"""Builds the C++ extension `wiresum.torch._c10d` against the installed PyTorch: ``python -m wiresum.torch.build``.

Wheels bring it ready-made for the versions of PyTorch that were there when they were made; it is built for any other.
Building takes about a minute and happens only when none that fits is there.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wiresum.torch import extension

COMPILER_FLAGS = ["-O2", "-std=c++20", "-fvisibility=hidden"]


def build(folder: Path = extension.PACKAGE_DIRECTORY, *, force: bool = False, verbose: bool = False) -> Path:
    """Builds the extension if `folder` has none that fits.

    Returns:
        The path of the extension module.

    Raises:
        RuntimeError: the compiler failed, or there is none; its output is in the message.
        OSError: the folder cannot be written.
    """
    wanted = folder / extension.file_name()
    if wanted.is_file() and not force:
        return wanted
    scratch = folder / ".build"
    scratch.mkdir(parents=True, exist_ok=True)
    with (scratch / "in-use").open("w") as in_use:
        fcntl.flock(in_use, fcntl.LOCK_EX)
        if force or not wanted.is_file():  # another process may have built it meanwhile
            print(f"wiresum: building the PyTorch extension {wanted} (about a minute, once)", file=sys.stderr)
            _install(_compile(scratch, verbose=verbose), wanted)
            if folder == extension.PACKAGE_DIRECTORY:
                _remove_older(wanted)
    return wanted


def _compile(scratch: Path, *, verbose: bool) -> Path:
    from torch.utils import cpp_extension

    # PyTorch's own lock file stays behind when a build is killed, and the next one would wait for it for ever. We hold
    # a lock that the kernel releases, so nobody is building.
    (scratch / "lock").unlink(missing_ok=True)
    with _environment():
        cpp_extension.load(
            name="_c10d",
            sources=[str(path) for path in sorted(extension.SOURCE_DIRECTORY.glob("*.cpp"))],
            extra_cflags=COMPILER_FLAGS,
            build_directory=str(scratch),
            is_python_module=False,
            verbose=verbose,
        )
    return scratch / "_c10d.so"


@contextmanager
def _environment() -> Iterator[None]:
    """What the compiler needs: ninja, and all processors. A training that builds gets its own environment back."""
    before = dict(os.environ)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    os.environ.setdefault("MAX_JOBS", str(os.cpu_count() or 1))
    try:
        yield
    finally:
        for name in ("PATH", "MAX_JOBS"):
            os.environ.pop(name)
            if name in before:
                os.environ[name] = before[name]


def _install(library: Path, wanted: Path) -> None:
    fresh = wanted.with_suffix(".new")
    shutil.copyfile(library, fresh)
    fresh.replace(wanted)  # processes that have the old one mapped keep it


def _remove_older(wanted: Path) -> None:
    """Those of other sources or another PyTorch, which a source tree would collect; a cache serves several versions."""
    suffix = "".join(wanted.suffixes[-2:])
    for older in wanted.parent.glob(f"_c10d*{suffix}"):
        if older != wanted:
            older.unlink(missing_ok=True)


def main() -> int:
    """The command's entry point; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m wiresum.torch.build", description=__doc__)
    parser.add_argument("--force", action="store_true", help="build even if one that fits is there")
    parser.add_argument("--cache", action="store_true", help="build in the user's cache, not beside the package")
    parser.add_argument("--verbose", action="store_true", help="show the compiler's commands")
    arguments = parser.parse_args()
    folder = extension.cache_directory() if arguments.cache else extension.PACKAGE_DIRECTORY
    try:
        path = build(folder, force=arguments.force, verbose=arguments.verbose)
    except (RuntimeError, OSError) as error:
        print(f"wiresum: building the PyTorch extension failed: {error}", file=sys.stderr)
        print("It needs a C++ compiler (apt-get install g++) and ninja (pip install ninja).", file=sys.stderr)
        return 1
    print(f"wiresum: {path} is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
