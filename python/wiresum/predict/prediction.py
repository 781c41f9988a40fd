"""What a prediction says."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wiresum.predict.flow import Flow, Span
from wiresum.topology.paths import UNLIMITED_BPS, Capacities, Capacity


@dataclass(frozen=True)
class FlowRates:
    """A flow and its rate over time."""

    flow: Flow
    spans: Sequence[Span]

    @property
    def end_seconds(self) -> float:
        """When its last byte has arrived."""
        return self.spans[-1].end_seconds if self.spans else self.flow.start_seconds


@dataclass(frozen=True)
class LinkLoad:
    """What crosses one direction of a link, or what one node adds.

    Attributes:
        capacity: which.
        bandwidth_bps: its rate.
        wire_bytes: everything that crosses it.
        seconds: the prediction's time, for the utilisation.
    """

    capacity: Capacity
    bandwidth_bps: float
    wire_bytes: float
    seconds: float

    @property
    def busy_seconds(self) -> float:
        """How long it would take on its own."""
        return self.wire_bytes * 8 / self.bandwidth_bps

    @property
    def utilisation(self) -> float:
        """Fraction of the time, 0 to 1."""
        return self.busy_seconds / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Prediction:
    """One all-reduce, or one reduce, as a fluid.

    Attributes:
        seconds: until the last flow has ended, from the time 0 of the workers' starts.
        root_done_seconds: until the roots hold the whole sum.
        flows: each with its rate over time.
        links: the load of every capacity that a flow crosses.
    """

    seconds: float
    root_done_seconds: float
    flows: Sequence[FlowRates]
    links: Sequence[LinkLoad]

    @classmethod
    def of(cls, flows: Sequence[Flow], spans: Sequence[Sequence[Span]], capacities: Capacities) -> "Prediction":
        """Sums up what the simulation found."""
        rates = [FlowRates(flow, flow_spans) for flow, flow_spans in zip(flows, spans, strict=True)]
        seconds = max((one.end_seconds for one in rates), default=0.0)
        uploads = [one.end_seconds for one in rates if one.flow.kind == "gradient"]
        crossing: dict[Capacity, float] = {}
        for flow in flows:
            for capacity in flow.path:
                crossing[capacity] = crossing.get(capacity, 0.0) + flow.wire_bytes
        links = [
            LinkLoad(capacity, capacities[capacity], wire_bytes, seconds)
            for capacity, wire_bytes in sorted(crossing.items())
        ]
        return cls(seconds, max(uploads, default=0.0), rates, links)

    @property
    def bottleneck(self) -> LinkLoad:
        """What would take longest on its own; the first by name among equals."""
        return max(self.links, key=lambda link: link.busy_seconds)

    def to_json(self) -> dict[str, Any]:
        """Plain data: rates in bit/s, times in seconds, bytes on the wire."""
        return {
            "seconds": self.seconds,
            "root_done_seconds": self.root_done_seconds,
            "bottleneck": str(self.bottleneck.capacity),
            "flows": [_flow_json(one) for one in self.flows],
            "links": [_link_json(link) for link in self.links],
        }


def _flow_json(one: FlowRates) -> dict[str, Any]:
    flow = one.flow
    return {
        "stream": flow.stream,
        "kind": flow.kind,
        "source": flow.source,
        "target": flow.target,
        "wire_bytes": flow.wire_bytes,
        "start_seconds": flow.start_seconds,
        "end_seconds": one.end_seconds,
        "rates": [[span.begin_seconds, span.end_seconds, span.rate_bps] for span in one.spans],
    }


def _link_json(link: LinkLoad) -> dict[str, Any]:
    return {
        "link": link.capacity.link or None,
        "source": link.capacity.source,
        "target": link.capacity.target,
        "bandwidth_bps": None if link.bandwidth_bps == UNLIMITED_BPS else link.bandwidth_bps,
        "wire_bytes": link.wire_bytes,
        "busy_seconds": link.busy_seconds,
        "utilisation": link.utilisation,
    }
