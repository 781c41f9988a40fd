"""What doctor says about workers' transports."""

from __future__ import annotations

from typing import Any

import pytest

from wiresum.cli import doctor_transport
from wiresum.cli.doctor_transport import why_no_frames, why_no_jumbo, why_not

EVERYTHING = (1 << 41) - 1
LOOPBACK = {"ifname": "lo", "flags": ["LOOPBACK", "UP"], "mtu": 65536}


def link(**more: Any) -> dict[str, Any]:
    return {"ifname": "eth0", "flags": ["UP"], "mtu": 1500, **more}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ""),
        ({"xdp": {"mode": 1}}, "`ip link set dev eth0 xdp off` removes it"),
        ({"linkinfo": {"info_kind": "bridge"}}, "a bridge has no native XDP"),
        ({"linkinfo": {"info_kind": "veth"}}, ""),
        ({"linkinfo": {"info_kind": "veth"}, "mtu": 9000}, "an MTU of 9000 is too large"),
    ],
)
def test_what_is_known_against_an_interface(more: dict[str, Any], expected: str) -> None:
    reason = why_not(link(**more))
    assert expected in reason
    assert bool(reason) == bool(expected)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([LOOPBACK], "workers go by UDP: there is no interface but the loopback one"),
        ([LOOPBACK, link()], ""),
        ([link(), link(ifname="br0", linkinfo={"info_kind": "bridge"})], "br0: a bridge has no native XDP"),
    ],
)
def test_each_interface_is_named_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, found: list[dict[str, Any]], expected: str
) -> None:
    monkeypatch.setattr(doctor_transport, "effective_capabilities", lambda: EVERYTHING)
    monkeypatch.setattr(doctor_transport, "links", lambda: found)
    assert why_no_frames().startswith(expected)
    assert bool(why_no_frames()) == bool(expected)


def test_a_process_without_privileges_goes_by_udp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_transport, "effective_capabilities", lambda: EVERYTHING & ~(1 << 13) & ~(1 << 39))
    monkeypatch.setattr(doctor_transport, "lacking", lambda bits: [] if bits >> 39 & 1 else ["CAP_BPF"])
    assert "CAP_BPF, CAP_NET_RAW missing" in why_no_frames()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([LOOPBACK], "there is no interface but the loopback one; "),
        ([LOOPBACK, link()], "eth0 has 1500; where the switches between hosts allow it, `ip link set dev IF mtu 9000`"),
        ([link(), link(ifname="eth1", mtu=9000)], ""),
    ],
)
def test_packets_of_9000_bytes_need_an_interface_for_them(
    monkeypatch: pytest.MonkeyPatch, found: list[dict[str, Any]], expected: str
) -> None:
    monkeypatch.setattr(doctor_transport, "links", lambda: found)
    assert why_no_jumbo().startswith(expected)
    assert bool(why_no_jumbo()) == bool(expected)


def test_this_machine_has_links() -> None:
    found = doctor_transport.links()
    assert any(link["ifname"] == "lo" for link in found)
    assert all({"ifname", "flags", "mtu"} <= link.keys() for link in found)
