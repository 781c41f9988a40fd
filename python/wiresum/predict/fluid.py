"""The fluid simulation: from one event to the next, rates stay the same."""

from collections.abc import Iterator, Sequence

from wiresum.errors import PlanError
from wiresum.predict.flow import Flow, Span
from wiresum.predict.sharing import max_min_rates
from wiresum.topology.paths import Capacities

TOLERANCE = 1e-9
"""Relative to a flow's bytes: a smaller remainder or lead is rounding, and gets no event of its own."""
EVENTS_PER_FLOW = 64
"""A flow starts once, ends once and catches up a few times; more means that the simulation makes no progress."""


def simulate(flows: Sequence[Flow], capacities: Capacities) -> list[list[Span]]:
    """What each flow's rate is, over time.

    Between events the rates are max-min fair. Events are: a flow starts, ends, or catches up with one that feeds it,
    from where on it can be no faster. A flow that feeds and has ended holds nobody up; one that has not started holds
    up those that have caught up with it, at zero.

    Args:
        flows: what is to be sent; the numbers in `feeds` are indices into this.
        capacities: bit/s of every capacity on a path.

    Returns:
        For each flow its spans, in order, without those in which it is idle; neighbours with the same rate are one.

    Raises:
        PlanError: flows wait for each other in a circle.
    """
    state = _State(flows, capacities)
    for _ in range(EVENTS_PER_FLOW * max(1, len(flows))):
        if not state.open:
            return state.spans
        state.advance()
    waiting = ", ".join(str(flows[number]) for number in sorted(state.open)[:4])
    raise PlanError(f"the prediction makes no progress at {state.now} s: {waiting} …; please report this plan")


class _State:
    """How far each flow is."""

    def __init__(self, flows: Sequence[Flow], capacities: Capacities) -> None:
        self.flows = flows
        self.capacities = capacities
        self.now = 0.0
        self.sent = [0.0] * len(flows)
        self.open = set(range(len(flows)))
        self.spans: list[list[Span]] = [[] for _ in flows]

    def advance(self) -> None:
        """Goes to the next event."""
        order = sorted(self.open)
        rates = dict(zip(order, self._rates(order), strict=True))
        begin, self.now = self.now, self._next_event(rates)
        step = self.now - begin
        for number, rate_bps in rates.items():
            self.sent[number] += rate_bps / 8 * step
            if rate_bps and step:
                self._record(number, Span(begin, self.now, rate_bps))
        self._close(order)

    def _rates(self, order: Sequence[int]) -> list[float]:
        place = {number: index for index, number in enumerate(order)}
        idle = [place[number] for number in order if self.flows[number].start_seconds > self.now]
        followers: dict[int, list[int]] = {}
        for number in order:
            for feed in self.flows[number].feeds:
                if feed in place and not self._lags(number, feed):
                    followers.setdefault(place[feed], []).append(place[number])
        for group in self._lockstep(order):
            for one, other in zip(group, [*group[1:], group[0]], strict=True):
                followers.setdefault(place[one], []).append(place[other])
        return max_min_rates([self.flows[number].path for number in order], self.capacities, followers, idle)

    def _lockstep(self, order: Sequence[int]) -> list[list[int]]:
        groups: dict[str, list[int]] = {}
        for number in order:
            name = self.flows[number].lockstep
            if name is not None:
                groups.setdefault(name, []).append(number)
        return list(groups.values())

    def _next_event(self, rates: dict[int, float]) -> float:
        """Seconds since the beginning."""
        starts = [flow.start_seconds for flow in self.flows if flow.start_seconds > self.now]
        ends = [
            self.now + (self.flows[number].wire_bytes - self.sent[number]) * 8 / rate_bps
            for number, rate_bps in rates.items()
            if rate_bps
        ]
        times = [*starts, *ends, *self._meetings(rates)]
        if not times:
            names = ", ".join(str(self.flows[number]) for number in sorted(rates)[:4])
            raise PlanError(f"these flows wait for each other: {names}; the tree has a cycle")
        return min(times)

    def _meetings(self, rates: dict[int, float]) -> Iterator[float]:
        """When flows catch up with those that feed them."""
        for number, rate_bps in rates.items():
            for feed in self.flows[number].feeds:
                gain_bps = rate_bps - rates.get(feed, 0.0)
                if feed in rates and gain_bps > 0 and self._lags(number, feed):
                    yield self.now + (self.sent[feed] - self.sent[number]) * 8 / gain_bps

    def _lags(self, number: int, feed: int) -> bool:
        """Whether a flow has something to send that the feed has already brought."""
        return self.sent[feed] - self.sent[number] > TOLERANCE * self.flows[number].wire_bytes

    def _record(self, number: int, span: Span) -> None:
        spans = self.spans[number]
        if spans and spans[-1].end_seconds == span.begin_seconds and spans[-1].rate_bps == span.rate_bps:
            spans[-1] = Span(spans[-1].begin_seconds, span.end_seconds, span.rate_bps)
        else:
            spans.append(span)

    def _close(self, order: Sequence[int]) -> None:
        for number in order:
            flow = self.flows[number]
            if flow.wire_bytes - self.sent[number] <= TOLERANCE * flow.wire_bytes:
                self.sent[number] = flow.wire_bytes
                self.open.discard(number)
