"""§IV-A and §VI-B: what a packet costs an aggregator."""

from __future__ import annotations

import statistics

from wiresum import wire
from wiresum.bench.result import Result
from wiresum.reproduce.row import Reports, Row
from wiresum.reproduce.words import listed, percent, spread, times
from wiresum.reproduce.xagg import arithmetic, printed

FRAME_CHECK_BYTES = 4
"""The paper counts it as part of a frame."""
G, M = 1e9, 1e6
LINE_BPS = 100e9
XDP = ("xdp", "xdp on frames")
"""On socket buffers, and as a network card's driver feeds it."""
LITTLE_LOSS = 0.01
"""Where more is lost, round trips are those of the packets that did not queue."""


def own_goodput() -> str:
    """Wiresum's own headers, over the same kind of frame."""
    overhead = wire.ETHERNET_LEN + FRAME_CHECK_BYTES + wire.IPV4_LEN + wire.UDP_LEN + wire.HEADER_LEN
    shares = {
        f"{values} values": percent(arithmetic.goodput(values, overhead), 2)
        for values in (printed.BEST_VALUES, printed.FRAME_VALUES, wire.PAGE_VALUES)
    }
    return f"{overhead} B of headers: {listed(shares)}"


def rates(reports: Reports) -> dict[str, dict[int, Result]]:
    """Packets per second of one core, by engine, with what it is fed if that is frames, and values in a packet."""
    found: dict[str, dict[int, Result]] = {}
    for result in reports.report("aggregator").results:
        if result.extra["kind"] == "rate":
            fed = " on frames" if result.extra.get("feed") == "frames" else ""
            found.setdefault(f"{result.extra['engine']}{fed}", {})[int(result.extra["values"])] = result
    return found


def loads(reports: Reports) -> dict[str, dict[float, Result]]:
    """Runs at a pace, by engine and contributions per second that were offered."""
    found: dict[str, dict[float, Result]] = {}
    for result in reports.report("aggregator").results:
        if result.extra["kind"] == "load":
            found.setdefault(str(result.extra["engine"]), {})[float(result.extra["offered_packets_per_s"])] = result
    return found


def gradient_bps(packets_per_s: float, values: int) -> float:
    """Throughput of gradient alone."""
    return packets_per_s * values * printed.VALUE_BYTES * 8


def packet_rates(reports: Reports) -> str:
    """XDP's rate by values, and the straight line through its times."""
    xdp = rates(reports)["xdp"]
    shown = {f"{values} values": f"{result.median / M:.2f} Mpps" for values, result in sorted(xdp.items())}
    times_ns = [result.extra["nanoseconds"] for result in xdp.values()]
    line = statistics.linear_regression(list(xdp), times_ns)
    return f"XDP, live: {listed(shown)}; time about {line.intercept:.0f} + {line.slope:.2f} n ns"


def core_throughputs(reports: Reports) -> str:
    """Every engine at the paper's packet size, or the next that was measured."""
    shown = {}
    for engine, by_values in rates(reports).items():
        values = min(by_values, key=lambda n: abs(n - printed.BEST_VALUES))
        result = by_values[values]
        rate = gradient_bps(result.median, values) / G
        shown[f"{engine} ({values} values)"] = f"{result.extra['nanoseconds']:.0f} ns a packet = {rate:.2f} Gbit/s"
    return f"a core's time, live: {listed(shown)}"


def xdp_over_tcp(reports: Reports) -> str:
    """The ratio at every packet size that was measured."""
    engines = rates(reports)
    shown = [_ratios(xdp, engines["tcp"], name) for name, xdp in engines.items() if name in XDP]
    return f"live, over TCP: {'; '.join(shown)}"


def _ratios(xdp: dict[int, Result], tcp: dict[int, Result], name: str) -> str:
    ratios = {values: xdp[values].median / tcp[values].median for values in sorted(xdp) if values in tcp}
    each = listed({f"{values} values": f"{ratio:.2f}" for values, ratio in ratios.items()})
    return f"{name} {spread(list(ratios.values()))} ({each})"


def cores_for_the_line(reports: Reports) -> str:
    """What one core's figure gives if flows are steered to cores; two cores cannot show it."""
    shown = {
        engine: f"{LINE_BPS / gradient_bps(result.median, values):.1f}"
        for engine, by_values in rates(reports).items()
        for values, result in by_values.items()
        if engine in {*XDP, "tcp"} and values == min(by_values, key=lambda n: abs(n - printed.BEST_VALUES))
    }
    return f"cores for 100 Gbit/s if they scaled linearly, from one core's rate: {listed(shown)}; scaling not measured"


def added_latencies(reports: Reports) -> str:
    """At the lowest pace and at the highest one that no engine lost packets at."""
    engines = loads(reports)
    xdp, tcp = engines["xdp"], engines.get("tcp", {})
    clean = [
        rate for rate in sorted(xdp)
        if all(rate in runs and runs[rate].extra["loss"] < LITTLE_LOSS for runs in (xdp, tcp) if runs)
        and all(runs[rate].extra["added_latency_us"] is not None for runs in engines.values() if rate in runs)
    ]  # fmt: skip
    if not clean:
        return "live: packets were lost at every pace, so there are no latencies to compare"
    return "live: " + "; ".join(_latencies_at(rate, engines) for rate in dict.fromkeys((clean[0], clean[-1])))


def _latencies_at(rate: float, engines: dict[str, dict[float, Result]]) -> str:
    added = {engine: float(runs[rate].extra["added_latency_us"]) for engine, runs in engines.items() if rate in runs}
    values = next(iter(engines.values()))[rate].extra["values"]
    shown = f"at {gradient_bps(rate, values) / G:.2f} Gbit/s {listed({e: f'{us:.1f} µs' for e, us in added.items()})}"
    if "tcp" in added and added["tcp"] > 0:
        shown += f" (XDP {percent(arithmetic.reduction(added['xdp'], added['tcp']), 0)} below TCP)"
    return shown


def losses(reports: Reports) -> str:
    """At the highest pace, and the highest one without loss."""
    shown = {engine: _losses_of(runs) for engine, runs in loads(reports).items()}
    return f"live, one core: {listed(shown)}"


def _losses_of(runs: dict[float, Result]) -> str:
    highest = max(runs)
    clean = max((rate for rate, result in runs.items() if not lost(result)), default=0.0)
    return f"{percent(lost(runs[highest]), 2)} at {highest:,.0f} packets/s offered, none up to {clean:,.0f}"


def lost(result: Result) -> float:
    """Share of contributions without a result, as far as two digits of a percentage show it."""
    return round(max(0.0, float(result.extra["loss"])), 4)


def _packet_times() -> str:
    shown = {f"{n} values": f"{arithmetic.packet_ns(rate):.0f} ns" for n, rate in printed.PACKETS_PER_S.items()}
    at_best = arithmetic.affine_packets_per_s(printed.BEST_VALUES)
    return f"{listed(shown)}; the line through both gives {at_best / M:.2f} Mpps at {printed.BEST_VALUES}"


def _core_rate() -> str:
    gradient = arithmetic.packets_per_s(printed.CORE_BPS["XAgg"], printed.BEST_VALUES)
    frames = arithmetic.packets_per_s(printed.CORE_BPS["XAgg"], printed.BEST_VALUES, arithmetic.overhead_bytes())
    return (
        f"{frames / M:.2f} Mpps if frames are counted, {gradient / M:.2f} if gradient is "
        f"({arithmetic.packet_ns(gradient):.0f} to {arithmetic.packet_ns(frames):.0f} ns): "
        "above the line through Fig. 6 (see X3)"
    )


def _scaling() -> str:
    xagg = printed.CORES_BPS["XAgg"] / printed.CORE_BPS["XAgg"]
    dpdk = LINE_BPS / printed.CORE_BPS["DPDK"]
    return (
        f"linear from one core: {xagg:.1f} cores (DPDK {dpdk:.1f}); ten give {percent(arithmetic.scaling_efficiency())}"
        f" of ten times one core; {times(printed.CORES_BPS['XAgg'] / printed.CORES_BPS['TCP-Agg'])}"
    )


def _latency_growth() -> str:
    low, high = printed.HOP_S.values()
    return f"+{percent(high / low - 1)}"


def _loss_reduction() -> str:
    lower = arithmetic.reduction(printed.LOSS["XAgg"], printed.LOSS["TCP-Agg"])
    most = printed.CORES_BPS["TCP-Agg"] / G
    return f"{percent(lower)} lower, not 87 %; TCP-Agg was measured at 100 Gbit/s, yet carries {most:g} (X6)"


def _goodputs() -> str:
    overhead = arithmetic.overhead_bytes()
    shares = {f"{n} values": percent(arithmetic.goodput(n, overhead), 2) for n in (printed.FRAME_VALUES, 32)}
    return f"with {overhead} B of overhead: {listed(shares)}"


LIVE = ("aggregator",)
ROWS = (
    Row(
        "X2", "goodput of a packet with 320 values (frame of 1328 B), with 32", "A", "§IV-A", "96.39 %; 72.73 %",
        recomputed=_goodputs, computed=own_goodput,
    ),
    Row(
        "X3", "packets per second of one core", "HL", "Fig. 6", "4.19 Mpps with 32 values, 1.11 Mpps with 320",
        recomputed=_packet_times, measured=packet_rates, needs=LIVE,
    ),
    Row(
        "X4", "gradient throughput of one core", "HL", "Fig. 7",
        "XAgg 13.03 Gbit/s with 256 values, TCP-Agg 4.12 with 320, DPDK 14.9",
        recomputed=_core_rate, measured=core_throughputs, needs=LIVE,
    ),
    Row(
        "X5", "packet rate of XDP over TCP, one core, all packet sizes", "LH", "Fig. 6",
        "2.77 to 3.54 ×; DPDK 10.3 to 23.1 % above XDP",
        recomputed=lambda: (
            f"best throughputs (X4): XDP over TCP {times(printed.CORE_BPS['XAgg'] / printed.CORE_BPS['TCP-Agg'])}, "
            f"DPDK +{percent(printed.CORE_BPS['DPDK'] / printed.CORE_BPS['XAgg'] - 1)}"
        ),
        measured=xdp_over_tcp, needs=LIVE,
    ),
    Row(
        "X6", "throughput of ten cores", "HA", "Fig. 8",
        "99.5 Gbit/s, TCP-Agg 29.8, 3.3 ×; linear; DPDK 100 Gbit/s with nine",
        recomputed=_scaling, measured=cores_for_the_line, needs=LIVE,
    ),
    Row(
        "X7", "latency that a hop adds, at 10 and 100 Gbit/s", "HL", "Fig. 10",
        "149.5 µs and 209.3 µs, +40 %; 24 to 39 % below TCP-Agg; DPDK 6 to 37 % lower",
        recomputed=_latency_growth, measured=added_latencies, needs=LIVE,
    ),
    Row(
        "X8", "packets lost at 100 Gbit/s", "HXL", "Fig. 11", "XAgg 0.261 %, TCP-Agg 1.5 %: 87 % lower",
        recomputed=_loss_reduction, measured=losses, needs=LIVE,
    ),
)  # fmt: skip
