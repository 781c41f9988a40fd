"""Where a collective was summed, or why not in the network."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """What became of a collective. The C++ side (`csrc/reason.h`) has the same names."""

    PENDING = "pending"
    SUMMED = "summed"
    COLLECTIVE = "collective"
    ELEMENT_TYPE = "element_type"
    OPERATION = "operation"
    DEVICE = "device"
    LAYOUT = "layout"
    TOO_SMALL = "too_small"
    NO_NETWORK = "no_network"
    NOT_FINITE = "not_finite"
    UNFORESEEN = "unforeseen"
    NOT_SERVED = "not_served"
    FAILED = "failed"
    MISSED = "missed"
    GATHERED = "gathered"
    COPIED = "copied"
    SHARED = "shared"

    @property
    def explanation(self) -> str:
        """A sentence for people."""
        return _EXPLANATIONS[self]


_EXPLANATIONS = {
    Reason.PENDING: "It is not over yet.",
    Reason.SUMMED: "It was summed in the network.",
    Reason.MISSED: "It was summed in the network without this rank, whose values came too late for it.",
    Reason.COPIED: "It was copied by the network.",
    Reason.SHARED: "The bytes of all ranks came in one exchange with the network, and each rank took or reduced what "
    "it needs.",
    Reason.COLLECTIVE: "Gloo did it: the network takes all_reduce, reduce and reduce_scatter, and all_gather, "
    "broadcast, gather and scatter where the plan has copies.",
    Reason.ELEMENT_TYPE: "Gloo summed it: the network takes float32, float16 and bfloat16 only.",
    Reason.OPERATION: "Gloo reduced it: the network takes SUM and AVG only.",
    Reason.DEVICE: "Gloo did it: the network takes tensors in the memory of CPUs, or of one NVIDIA GPU.",
    Reason.LAYOUT: "Gloo did it: a tensor is sparse or overlaps itself, or tensors differ in type or length.",
    Reason.TOO_SMALL: "Gloo did it: it has fewer elements than WIRESUM_MIN_ELEMENTS.",
    Reason.NO_NETWORK: "Gloo summed it: its group is not connected to an aggregator.",
    Reason.NOT_FINITE: "Gloo summed it again: a value on some rank is Inf or NaN.",
    Reason.UNFORESEEN: "Gloo summed it again: its exponents were not those expected from the collective before.",
    Reason.NOT_SERVED: "Gloo did it: the network did not serve this job then, as the log says.",
    Reason.GATHERED: "Gloo gathered the rows of all ranks, which moved fewer bytes than their sums in the network.",
    Reason.FAILED: "It ended in an exception.",
}
