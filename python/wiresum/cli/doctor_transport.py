"""What `wiresum doctor` says about workers' transports: by which interfaces AF_XDP frames could go.

Nothing is attached to find out, as many drivers stop a link for a moment when a program comes. So whether a driver has
native XDP is known here only of kinds that have none; a worker that is told `af_xdp` tries, and says what it got.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from functools import cache
from typing import Any

from wiresum.cli.doctor_service import effective_capabilities, lacking

CAP_NET_RAW = 13
"""What opening an AF_XDP socket takes besides loading programs."""
WITHOUT_XDP = {"bridge", "dummy", "ifb", "ipvlan", "macvlan", "vlan", "vxlan", "wireguard"}
"""Kinds of links whose drivers have no native XDP."""
JUMBO_MTU_BYTES = 9_000
"""The usual MTU of networks that allow jumbo frames."""
VETH_MTU_BYTES = 3_498
"""The largest with which a veth takes a program that sees packets in one piece: a page without head and tail room."""


def why_no_frames() -> str:
    """Why workers of this host have UDP alone, or on which interfaces; empty where `af_xdp` may be tried on all."""
    capabilities = effective_capabilities()
    missing = lacking(capabilities) + ([] if capabilities >> CAP_NET_RAW & 1 else ["CAP_NET_RAW"])
    if missing:
        return f"workers go by UDP: {', '.join(missing)} missing; with these AF_XDP spares them the network stack"
    reasons = {link["ifname"]: why_not(link) for link in links() if "LOOPBACK" not in link["flags"]}
    if not reasons:
        return "workers go by UDP: there is no interface but the loopback one"
    return "; ".join(f"{name}: {reason}" for name, reason in reasons.items() if reason)


def why_no_jumbo() -> str:
    """Why packets of 9000 bytes leave by no interface of this host; empty where they do by one."""
    largest = {link["ifname"]: link["mtu"] for link in links() if "LOOPBACK" not in link["flags"]}
    if any(mtu >= JUMBO_MTU_BYTES for mtu in largest.values()):
        return ""
    found = ", ".join(f"{name} has {mtu}" for name, mtu in largest.items())
    found = found or "there is no interface but the loopback one"
    return f"{found}; where the switches between hosts allow it, `ip link set dev IF mtu {JUMBO_MTU_BYTES}`"


@cache
def links() -> list[dict[str, Any]]:
    """Interfaces that are up, as `ip` describes them; none where it is missing."""
    try:
        done = subprocess.run(["ip", "-json", "-details", "link", "show", "up"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    # `ip` leaves an empty object in the place of each link that is down.
    return [link for link in json.loads(done.stdout) if link]


def why_not(link: Mapping[str, Any]) -> str:
    """Why frames cannot go by an interface, and what to do; empty if nothing is known against it.

    Args:
        link: as `ip -json -details link` describes it.
    """
    kind = link.get("linkinfo", {}).get("info_kind", "")
    if "xdp" in link:
        return f"another XDP program is attached; `ip link set dev {link['ifname']} xdp off` removes it"
    if kind in WITHOUT_XDP:
        return f"a {kind} has no native XDP; use the interface below it"
    if kind == "veth" and link["mtu"] > VETH_MTU_BYTES:
        return f"an MTU of {link['mtu']} is too large for XDP on veth; lower it to {VETH_MTU_BYTES}"
    return ""
