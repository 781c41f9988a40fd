"""What follows from the paper's own figures: each function is a line of the column *recomputed*."""

from __future__ import annotations

from collections.abc import Mapping

from wiresum.reproduce.xagg import printed


def overhead_bytes() -> int:
    """Bytes of a frame that are not gradient.

    Example:
        >>> overhead_bytes()
        48
    """
    return printed.FRAME_BYTES - printed.VALUE_BYTES * printed.FRAME_VALUES


def goodput(values: int, overhead: int) -> float:
    """Share of a frame that is gradient.

    Example:
        >>> round(goodput(320, 48), 4), round(goodput(32, 48), 4)
        (0.9639, 0.7273)
    """
    size = printed.VALUE_BYTES * values
    return size / (size + overhead)


def packet_ns(packets_per_s: float) -> float:
    """Time of a packet on one core."""
    return 1e9 / packets_per_s


def affine_packets_per_s(values: int) -> float:
    """Packets per second on the straight line, time over values, through the two printed rates of Fig. 6."""
    (few, few_rate), (many, many_rate) = printed.PACKETS_PER_S.items()
    slope = (packet_ns(many_rate) - packet_ns(few_rate)) / (many - few)
    return 1e9 / (packet_ns(few_rate) + slope * (values - few))


def packets_per_s(throughput_bps: float, values: int, overhead: int = 0) -> float:
    """Packets that make a throughput; counted in gradient alone, or in frames if an overhead is given."""
    return throughput_bps / 8 / (printed.VALUE_BYTES * values + overhead)


def scaling_efficiency() -> float:
    """Throughput of ten cores over ten times that of one.

    Example:
        >>> round(scaling_efficiency(), 3)
        0.764
    """
    return printed.CORES_BPS["XAgg"] / (printed.CORES * printed.CORE_BPS["XAgg"])


def reduction(ours: float, theirs: float) -> float:
    """Fraction by which `ours` is below `theirs`.

    Example:
        >>> round(reduction(0.31, 0.61), 3)
        0.492
    """
    return 1 - ours / theirs


def reductions(values: Mapping[str, float]) -> dict[str, float]:
    """XAgg's reduction against each rival."""
    return {rival: reduction(values["XAgg"], values[rival]) for rival in printed.RIVALS}


def speedups(values: Mapping[str, float]) -> dict[str, float]:
    """Each rival's time over XAgg's."""
    return {rival: values[rival] / values["XAgg"] for rival in printed.RIVALS}


def mean_over_nodes(per_role: Mapping[str, float]) -> float:
    """Mean over the ten machines of the test bed, from a value for each role.

    Example:
        >>> round(mean_over_nodes({"worker": 12, "server": 5, "PS": 2}), 9)
        9.6
    """
    return sum(printed.NODES[role] * value for role, value in per_role.items()) / sum(printed.NODES.values())


def communication_share(epoch_reduction: float, communication_reduction: float) -> float:
    """Share of communication in a rival's epoch, if an epoch is computation, equal for all, and communication.

    With computation c and communication x of XAgg's and y of the rival's, the epoch shrinks by (y - x) / (c + y) and
    communication by (y - x) / y; their quotient is y / (c + y).

    Example:
        >>> round(communication_share(0.26, 1 - 0.31 / 1.66), 2)
        0.32
    """
    return epoch_reduction / communication_reduction


def epoch_reduction(share: float, communication_ratio: float) -> float:
    """The epoch's reduction in the same model.

    Args:
        share: of communication in the rival's epoch.
        communication_ratio: the rival's communication over ours.

    Example:
        >>> epoch_reduction(0.5, 2.0)
        0.25
    """
    return share * (1 - 1 / communication_ratio)
