"""Builds the C++ extension `wiresum.torch._c10d` against the installed PyTorch: ``python -m wiresum.torch.build``.

It cannot be shipped ready-made, because it uses classes of PyTorch's C++ library whose layout changes with every
release. Building takes about a minute and happens only when the sources, PyTorch or Python have changed.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import sys
from pathlib import Path

from wiresum.torch import extension

SOURCE_DIRECTORY = Path(__file__).parent / "csrc"
BUILD_DIRECTORY = SOURCE_DIRECTORY / "build"
COMPILER_FLAGS = ["-O2", "-std=c++20", "-fvisibility=hidden"]


def build(*, force: bool = False, verbose: bool = False) -> Path:
    """Builds the extension if it is missing or out of date.

    Returns:
        The path of the extension module.

    Raises:
        RuntimeError: the compiler failed; its output is in the message.
        OSError: the package's directory cannot be written.
    """
    wanted = extension.current_stamp()
    if not force and extension.read_stamp() == wanted and extension.MODULE_PATH.exists():
        return extension.MODULE_PATH
    BUILD_DIRECTORY.mkdir(exist_ok=True)
    with (BUILD_DIRECTORY / "in-use").open("w") as in_use:
        fcntl.flock(in_use, fcntl.LOCK_EX)
        library = _compile(verbose=verbose)
        _install(library, wanted)
    return extension.MODULE_PATH


def _compile(*, verbose: bool) -> Path:
    from torch.utils import cpp_extension

    # PyTorch's own lock file stays behind when a build is killed, and the next one would wait for it for ever. We hold
    # a lock that the kernel releases, so nobody is building.
    (BUILD_DIRECTORY / "lock").unlink(missing_ok=True)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # ninja's place
    os.environ.setdefault("MAX_JOBS", str(os.cpu_count() or 1))
    cpp_extension.load(
        name="_c10d",
        sources=[str(path) for path in sorted(SOURCE_DIRECTORY.glob("*.cpp"))],
        extra_cflags=COMPILER_FLAGS,
        build_directory=str(BUILD_DIRECTORY),
        is_python_module=False,
        verbose=verbose,
    )
    return BUILD_DIRECTORY / "_c10d.so"


def _install(library: Path, stamp: extension.Stamp) -> None:
    extension.STAMP_PATH.unlink(missing_ok=True)
    fresh = extension.MODULE_PATH.with_suffix(".new")
    shutil.copyfile(library, fresh)
    fresh.replace(extension.MODULE_PATH)  # processes that have the old one mapped keep it
    extension.write_stamp(stamp)


def main() -> int:
    """The command's entry point; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m wiresum.torch.build", description=__doc__)
    parser.add_argument("--force", action="store_true", help="build even if nothing has changed")
    parser.add_argument("--verbose", action="store_true", help="show the compiler's commands")
    arguments = parser.parse_args()
    try:
        path = build(force=arguments.force, verbose=arguments.verbose)
    except (RuntimeError, OSError) as error:
        print(f"wiresum: building the PyTorch extension failed: {error}", file=sys.stderr)
        print("It needs a C++ compiler (apt-get install g++) and ninja (pip install ninja).", file=sys.stderr)
        return 1
    print(f"wiresum: {path} is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
