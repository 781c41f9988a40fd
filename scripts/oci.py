"""Packs a root directory as an OCI image of one layer: `oci.py ROOT --version V --out FILE.tar`.

The layout is that of the OCI image specification 1.1 (image layout, manifest, configuration). Times and owners are
constant, so the same files make the same image.
"""

import argparse
import gzip
import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
OWNER = 65532
"""The user in the image; an engine in the kernel takes `--user 0` and the capabilities that docs/operating.md names."""


def layer(root: Path) -> bytes:
    """A tar archive of all files below `root`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(root.rglob("*")):
            entry = archive.gettarinfo(path, arcname=str(path.relative_to(root)))
            entry.mtime, entry.uname, entry.gname = 0, "", ""
            writable = entry.name.startswith(("run/", "tmp", "var/lib/"))
            entry.uid = entry.gid = OWNER if writable else 0
            if entry.isfile():
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    return buffer.getvalue()


class Blobs:
    """The content-addressed files of an image."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def add(self, media_type: str, content: bytes) -> dict[str, Any]:
        """Stores `content`; its descriptor."""
        digest = hashlib.sha256(content).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def add_json(self, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        """Stores an object of one of the specification's kinds; its descriptor."""
        media_type = f"application/vnd.oci.image.{kind}.v1+json"
        return self.add(media_type, json.dumps(content, sort_keys=True).encode())


def image(root: Path, version: str) -> dict[str, bytes]:
    """The files of an image layout."""
    blobs, tar = Blobs(), layer(root)
    packed = blobs.add("application/vnd.oci.image.layer.v1.tar+gzip", gzip.compress(tar, mtime=0))
    configuration = {
        "architecture": MACHINES[platform.machine()],
        "os": "linux",
        "config": {
            "User": str(OWNER),
            "Entrypoint": ["/usr/bin/wiresum-node"],
            "Labels": {"org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0"},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar).hexdigest()}"]},
        "history": [{"created_by": "scripts/image.sh"}],
    }
    manifest = blobs.add_json(
        "manifest",
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": blobs.add_json("config", configuration),
            "layers": [packed],
        },
    )
    manifest["annotations"] = {"org.opencontainers.image.ref.name": version}
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    }
    layout = {"imageLayoutVersion": "1.0.0"}
    return {"oci-layout": json.dumps(layout).encode(), "index.json": json.dumps(index).encode(), **blobs.files}


def write(files: dict[str, bytes], out: Path) -> None:
    """Writes the layout as one archive."""
    with tarfile.open(out, "w") as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))


def main() -> None:
    """The command's entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    write(image(arguments.root, arguments.version), arguments.out)
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
