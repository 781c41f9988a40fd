#!/usr/bin/env bash
# Makes build/packages/wiresum-node-image.tar: an OCI image of the daemon and the libraries it links with, nothing else.
# `podman load -i`, `docker load -i` and `skopeo copy oci-archive:` read it.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/static.sh
. scripts/static.sh

root=build/image/root
rm -rf build/image
mkdir -p "$root/etc" "$root/run/wiresum" "$root/tmp" "$root/var/lib/wiresum" build/packages
say "Building the daemon, libelf and zlib inside"
static_daemon "$root/usr/bin/wiresum-node"
ldd "$root/usr/bin/wiresum-node" | grep -o '/[^ ]*' | while read -r library; do
    install -m 755 -D "$(realpath "$library")" "$root$library"
done
echo 'wiresum:x:65532:65532::/:/nonexistent' >"$root/etc/passwd"
.venv/bin/python scripts/oci.py "$root" --version "$(version)" --out build/packages/wiresum-node-image.tar
