"""Limits the rate of an interface in both directions."""

from dataclasses import dataclass

BURST_BYTES = 64 * 1024
"""Bucket of the shaper: one super-packet of TCP, half a millisecond at 1 Gbit/s."""
QUEUE_BYTES = 3 * 512 * 1024
"""Queue before each shaper: 512 packets of 3 kB, a switch port's share of its buffer."""


@dataclass(frozen=True)
class Shaper:
    """One direction of a link.

    Attributes:
        interface: whose egress queue limits the rate: the interface itself, or the ifb that its arrivals pass.
        rate_bps: bit/s, Ethernet headers included.
    """

    interface: str
    rate_bps: float

    def commands(self) -> list[str]:
        """For `tc -batch`."""
        limit = f"tbf rate {round(self.rate_bps)}bit burst {BURST_BYTES} limit {QUEUE_BYTES}"
        return [f"qdisc add dev {self.interface} root handle 1: {limit}"]


def ifb_name(interface: str) -> str:
    """The device that an interface's arrivals pass when they are shaped."""
    return f"i{interface}"


def ifb_commands(interface: str, mtu_bytes: int) -> list[str]:
    """For `ip -batch`: makes the device."""
    ifb = ifb_name(interface)
    return [f"link add name {ifb} type ifb", f"link set dev {ifb} mtu {mtu_bytes} txqueuelen 1000 addrgenmode none up"]


def redirect_commands(interface: str, device: str) -> list[str]:
    """For `tc -batch`: sends arrivals out by another device before the stack, or a bridge, sees them."""
    action = f"action mirred egress redirect dev {device}"
    return [
        f"qdisc add dev {interface} handle ffff: ingress",
        f"filter add dev {interface} parent ffff: protocol all u32 match u32 0 0 {action}",
    ]
