#!/usr/bin/env bash
# Makes build/packages/wiresum-node_*.deb: the daemon with its unit, its user and a manual page.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/static.sh
. scripts/static.sh
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

version=$(version)
architecture=$(dpkg --print-architecture)
root=build/deb/root
rm -rf build/deb
mkdir -p "$root/DEBIAN" "$root/etc/wiresum"
say "Building the daemon, libelf and zlib inside"
static_daemon "$root/usr/bin/wiresum-node"
install -m 644 -D "packaging/systemd/wiresum-node@.service" -t "$root/usr/lib/systemd/system"
install -m 644 -D packaging/systemd/wiresum.sysusers "$root/usr/lib/sysusers.d/wiresum.conf"
install -m 644 -D packaging/debian/copyright -t "$root/usr/share/doc/wiresum-node"
install -m 644 -D packaging/debian/wiresum-node.completion "$root/usr/share/bash-completion/completions/wiresum-node"
install -m 644 -D packaging/debian/lintian-overrides "$root/usr/share/lintian/overrides/wiresum-node"
install -m 644 -D packaging/debian/wiresum-node.8 -t "$root/usr/share/man/man8"
gzip -9n "$root/usr/share/man/man8/wiresum-node.8"
printf 'wiresum-node (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md of the project.\n\n -- The Wiresum authors <wiresum@localhost>  %s\n' \
    "$version" "$(date -Ru -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$root/usr/share/doc/wiresum-node/changelog.gz"
install -m 755 packaging/debian/postinst packaging/debian/prerm "$root/DEBIAN"
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@GLIBC@/$(needed_glibc "$root/usr/bin/wiresum-node")/" \
    -e "s/@KIB@/$(du -sk "$root" | cut -f1)/" packaging/debian/control >"$root/DEBIAN/control"
(cd "$root" && find usr -type f -exec md5sum {} + >DEBIAN/md5sums)
mkdir -p build/packages
dpkg-deb --root-owner-group --build "$root" build/packages
