"""Adds files to a wheel: `into_wheel.py WHEEL scripts/NAME=FILE data/share/…=FILE …`, in the scheme of its data folder.

The build tool adds a folder to every build, also to those in place, whose environment would get an old daemon. So the
daemon and the units come in afterwards, with their lines in the wheel's RECORD (binary distribution format 1.0).
"""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

EXECUTABLE, PLAIN = 0o100755 << 16, 0o100644 << 16
EPOCH = (1980, 1, 1, 0, 0, 0)


def record_line(name: str, content: bytes) -> str:
    """What RECORD says about a file."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def add(wheel: Path, files: dict[str, Path]) -> None:
    """Writes the wheel anew, with the files in its data folder.

    Args:
        wheel: the archive.
        files: by their places in the data folder, which begin with the name of an installation scheme's path.
    """
    fresh = wheel.with_suffix(".new")
    prefix = "-".join(wheel.name.split("-")[:2])
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as new:
        record = f"{prefix}.dist-info/RECORD"
        lines = old.read(record).decode()
        for entry in old.infolist():
            if entry.filename != record:
                new.writestr(entry, old.read(entry), zipfile.ZIP_DEFLATED)
        for place, path in files.items():
            entry = zipfile.ZipInfo(f"{prefix}.data/{place}", EPOCH)
            entry.external_attr = EXECUTABLE if place.startswith("scripts/") else PLAIN
            content = path.read_bytes()
            new.writestr(entry, content, zipfile.ZIP_DEFLATED)
            lines += record_line(entry.filename, content)
        new.writestr(record, lines)
    fresh.replace(wheel)


def main() -> None:
    """The command's entry point."""
    wheel, *pairs = sys.argv[1:]
    add(Path(wheel), {place: Path(path) for place, _, path in (pair.partition("=") for pair in pairs)})


if __name__ == "__main__":
    main()
