"""Flows over the capacities of `topology.paths`: the vocabulary of the prediction."""

from dataclasses import dataclass

from wiresum.topology.paths import Capacity


@dataclass(frozen=True)
class Flow:
    """Bytes that one node sends to another, in order.

    Attributes:
        stream: the part of the gradient; flows that feed each other have the same.
        kind: `gradient` on the way up, `result` on the way down.
        source: the node that sends.
        target: the node that receives.
        path: the capacities that it crosses, each once.
        wire_bytes: all of it, headers included.
        start_seconds: when its first byte may leave.
        feeds: numbers of the flows that bring what this one sends on: it is never ahead of any of them.
        lockstep: flows with the same value always have the same rate (`pool`); None: independent.
    """

    stream: str
    kind: str
    source: str
    target: str
    path: tuple[Capacity, ...]
    wire_bytes: float
    start_seconds: float = 0.0
    feeds: tuple[int, ...] = ()
    lockstep: str | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.source} → {self.target}"


@dataclass(frozen=True)
class Span:
    """A rate that stayed the same for a while."""

    begin_seconds: float
    end_seconds: float
    rate_bps: float
