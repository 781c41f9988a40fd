"""What was summed where: `wiresum.torch.report()`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from wiresum.torch.reason import Reason

if TYPE_CHECKING:
    from wiresum.torch._c10d import Ledger

KILO = 1000
RANKS_SUMMED = "ranks_summed"
"""The engine's counter of ranks that took part, over all sums and copies."""
COPIES = {"all_gather", "all_gather_single", "broadcast", "gather", "gather_single", "scatter"}
"""What the network carries where the plan has copies."""
WORTH_TELLING = 0.1
"""Bytes of copies through Gloo over bytes of sums in the network: what DDP sends once, at its start, is far below."""
FEW_BYTES = 1_000_000
"""Copies that nobody waits for, as those of objects."""
RETRANSMITTED = "repetitions"
"""The engine's counter of packets that it had to send again."""


@dataclass(frozen=True)
class Row:
    """Collectives of one kind that ended alike.

    Attributes:
        collective: its name in `torch.distributed`, as `all_reduce`.
        element_type: as `float32`; empty where there is no tensor.
        operation: as `SUM`; empty where nothing is reduced.
        reason: where they were summed, or why not in the network.
        collectives: how many.
        elements: elements of all their tensors on this rank.
        bytes: bytes of all their tensors on this rank.
        rows: rows of their sparse tensors on this rank, duplicates merged; 0 for dense tensors.
        rows_of_all: distinct rows that any rank had, which is how many were summed; 0 where ranks do not know.
    """

    collective: str
    element_type: str
    operation: str
    reason: Reason
    collectives: int
    elements: int
    bytes: int
    rows: int = 0
    rows_of_all: int = 0

    @property
    def row_counts(self) -> str:
        """Rows of sparse tensors, for people; empty for dense ones."""
        if not self.rows and not self.rows_of_all:
            return ""
        return f", {self.rows} rows" + (f" of {self.rows_of_all} that any rank has" if self.rows_of_all else "")

    @property
    def is_summed(self) -> bool:
        """Whether they were summed in the network, with this rank's values or without them."""
        return self.reason in {Reason.SUMMED, Reason.MISSED}

    @property
    def is_copied(self) -> bool:
        """Whether they were copied by the network."""
        return self.reason is Reason.COPIED

    @property
    def is_sum(self) -> bool:
        """Whether the network could have summed it, as far as the kind of collective goes."""
        return self.reason is not Reason.COLLECTIVE and bool(self.operation)


@dataclass(frozen=True)
class GroupReport:
    """What one group did.

    Attributes:
        name: the group's name; that of the first one is `0`.
        rank: this rank in it.
        size: its ranks.
        no_network: why it sums nothing in the network; empty if it does.
        rows: its collectives.
        errors: the first messages of collectives that failed.
        engine: the engine's statistics; empty without a network.
    """

    name: str
    rank: int
    size: int
    no_network: str
    rows: Sequence[Row]
    errors: Sequence[str] = ()
    engine: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sums(self) -> int:
        """Collectives of the kinds that the network sums, wherever they were summed."""
        return sum(row.collectives for row in self.rows if row.is_sum)

    @property
    def summed(self) -> int:
        """Collectives that were summed in the network."""
        return sum(row.collectives for row in self.rows if row.is_summed)

    @property
    def bytes_summed(self) -> int:
        """Bytes of this rank's tensors that were summed in the network."""
        return sum(row.bytes for row in self.rows if row.is_summed)

    @property
    def copied(self) -> int:
        """Collectives that were copied by the network."""
        return sum(row.collectives for row in self.rows if row.is_copied)

    @property
    def shared(self) -> int:
        """Collectives whose bytes came in one exchange with the network, and that each rank reduced itself."""
        return sum(row.collectives for row in self.rows if row.reason is Reason.SHARED)

    @property
    def bytes_copied(self) -> int:
        """Bytes of this rank's tensors that were copied by the network."""
        return sum(row.bytes for row in self.rows if row.is_copied)

    @property
    def missed(self) -> int:
        """Collectives that were summed without this rank's values, which were late."""
        return sum(row.collectives for row in self.rows if row.reason is Reason.MISSED)

    @property
    def ranks_per_sum(self) -> float | None:
        """Mean number of ranks whose values are in a sum; None before the first sum, or where nobody counts them."""
        ranks = self.engine.get(RANKS_SUMMED)
        return ranks / (self.summed + self.copied) if ranks is not None and self.summed else None

    @property
    def bytes_copied_by_gloo(self) -> int:
        """Bytes of this rank's tensors in collectives that copy and that Gloo did, as the plan has no copies."""
        return sum(row.bytes for row in self.rows if row.collective in COPIES and row.reason is Reason.COLLECTIVE)

    def delegated(self) -> dict[Reason, int]:
        """Collectives of those kinds that were not summed in the network, by reason."""
        counts: dict[Reason, int] = {}
        for row in self.rows:
            if row.is_sum and not row.is_summed:
                counts[row.reason] = counts.get(row.reason, 0) + row.collectives
        return counts

    def summary(self) -> str:
        """One line, as it is logged at the end of a run."""
        parts = [f"summed in the network: {self.summed} of {self.sums} collectives, {_bytes(self.bytes_summed)}"]
        if self.copied:
            parts.append(f"copied by it: {self.copied} collectives, {_bytes(self.bytes_copied)}")
        mean = self.ranks_per_sum
        if mean is not None and (mean < self.size or self.missed):
            parts.append(f"{mean:.3g} of {self.size} ranks in the mean sum, this one not in {self.missed}")
        if self.no_network:
            parts.append(f"not connected: {self.no_network}")
        if delegated := self.delegated():
            parts.append("others: " + ", ".join(f"{count} {reason}" for reason, count in delegated.items()))
        if hint := self._hint():
            parts.append(hint)
        if RETRANSMITTED in self.engine:
            parts.append(f"retransmitted packets: {self.engine[RETRANSMITTED]}")
        return "; ".join(parts)

    def _hint(self) -> str:
        """What went through Gloo and need not; empty if that is little."""
        copied = self.bytes_copied_by_gloo
        if self.no_network or copied <= max(FEW_BYTES, WORTH_TELLING * self.bytes_summed):
            return ""
        return f"Gloo did all-gathers, broadcasts and the like of {_bytes(copied)}, which plans carry with `--copies`"

    def __str__(self) -> str:
        lines = [f"group '{self.name}', rank {self.rank} of {self.size}: {self.summary()}"]
        lines += [
            f"  {row.collectives:>8} × {row.collective} {row.element_type} {row.operation}".rstrip()
            + f", {_bytes(row.bytes)}{row.row_counts}: {row.reason}"
            for row in self.rows
        ]
        lines += [f"  error: {error}" for error in self.errors]
        if self.engine:
            counts = [f"{name} {count}" for name, count in self.engine.items() if count]
            lines.append("  engine, where not 0: " + ", ".join(counts))
        return "\n".join(lines)


@dataclass(frozen=True)
class Report:
    """What all groups of this process did, oldest first."""

    groups: Sequence[GroupReport]

    @property
    def sums(self) -> int:
        """Collectives of all groups, of the kinds that the network sums."""
        return sum(group.sums for group in self.groups)

    @property
    def summed(self) -> int:
        """Collectives of all groups that were summed in the network."""
        return sum(group.summed for group in self.groups)

    @property
    def bytes_summed(self) -> int:
        """Bytes of this rank's tensors that were summed in the network."""
        return sum(group.bytes_summed for group in self.groups)

    @property
    def copied(self) -> int:
        """Collectives of all groups that were copied by the network."""
        return sum(group.copied for group in self.groups)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(map(str, self.groups)) or "no process group has used wiresum yet"


def group_report(ledger: Ledger, engine: Mapping[str, Any]) -> GroupReport:
    """The report of one group, from the C++ side's counters."""
    rows = [Row(name, kind, op, Reason(reason), *counts) for name, kind, op, reason, *counts in ledger.rows()]
    return GroupReport(ledger.group, ledger.rank, ledger.size, ledger.no_network, rows, ledger.errors, engine)


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < KILO:
            return f"{count:.3g} {unit}"
        count /= KILO
    return f"{count:.3g} TB"
