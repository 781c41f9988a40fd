"""The fluid once more, as plainly as it can be said: what the simulator's flows are held to."""

from wiresum.predict.flow import Flow
from wiresum.topology.paths import Capacities

ROUNDING = 1e-9
"""Relative to a flow's bytes: a smaller remainder or lead is none."""


def ends(flows: list[Flow], capacities: Capacities) -> list[float]:
    """When the last byte of each flow has arrived."""
    now, sent, ended = 0.0, [0.0] * len(flows), {}
    while len(ended) < len(flows):
        rates = shared(flows, capacities, now, sent, ended)
        now, before = min(events(flows, rates, now, sent, ended)), now
        sent = [bytes + rate / 8 * (now - before) for bytes, rate in zip(sent, rates, strict=True)]
        for number, flow in enumerate(flows):
            if number not in ended and sent[number] >= flow.wire_bytes * (1 - ROUNDING):
                ended[number] = now
    return [ended[number] for number in range(len(flows))]


def follows(flows: list[Flow], sent: list[float], number: int, feed: int) -> bool:
    """Whether a flow has sent all that this feed has brought."""
    return sent[feed] - sent[number] <= ROUNDING * flows[number].wire_bytes


def shared(flows, capacities, now, sent, ended) -> list[float]:
    """bit/s of each flow: all rise together, and those on a full capacity stay, with those that follow them."""
    left = [number for number in range(len(flows)) if number not in ended]
    rates: dict[int, float] = {}

    def settle(number, rate):
        if number in rates or number in ended:
            return
        rates[number] = rate
        for other in left:
            is_led = number in flows[other].feeds and follows(flows, sent, other, number)
            if is_led or (flows[number].lockstep and flows[other].lockstep == flows[number].lockstep):
                settle(other, rate)

    for number in left:
        if flows[number].start_seconds > now:
            settle(number, 0.0)
    while len(rates) < len(left):
        levels = {}
        for capacity, rate in capacities.items():
            users = [number for number in left if capacity in flows[number].path]
            free = [number for number in users if number not in rates]
            if free:
                taken = sum(rates[number] for number in users if number in rates)
                levels[capacity] = max(rate - taken, 0.0) / len(free)
        full = min(levels, key=levels.__getitem__)
        for number in left:
            if full in flows[number].path:
                settle(number, levels[full])
    return [rates.get(number, 0.0) for number in range(len(flows))]


def events(flows, rates, now, sent, ended):
    """When something starts, ends, or catches up with what feeds it."""
    yield from (flow.start_seconds for flow in flows if flow.start_seconds > now)
    for number, flow in enumerate(flows):
        if number in ended or not rates[number]:
            continue
        yield now + (flow.wire_bytes - sent[number]) * 8 / rates[number]
        for feed in flow.feeds:
            gain = rates[number] - rates[feed]
            if feed not in ended and gain > 0 and not follows(flows, sent, number, feed):
                yield now + (sent[feed] - sent[number]) * 8 / gain
