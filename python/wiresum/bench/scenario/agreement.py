"""How far the answers to a scenario are apart, and whether that is what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wiresum.bench.scenario.answers import FLOWS, LIVE, Answer


@dataclass(frozen=True)
class Tolerance:
    """How far one answer may be from another, as a share of it.

    Attributes:
        of: which of the answer's figures, for people.
        answer: whose.
        against: the other answer.
        least: the most that it may be below.
        most: the most that it may be above.
    """

    of: str
    answer: str
    against: str
    least: float
    most: float


PACKETS = "packets"
"""Or trains: the simulation of packets."""
SECONDS, BYTES = "seconds", "bytes"
TOLERANCES = (
    Tolerance(SECONDS, PACKETS, FLOWS, -0.01, 0.10),
    Tolerance(BYTES, PACKETS, FLOWS, -0.02, 0.02),
    Tolerance(SECONDS, LIVE, PACKETS, -0.05, 0.15),
    Tolerance(BYTES, LIVE, PACKETS, -0.02, 0.05),
)
"""Flows know neither delay nor a window's beginning and end, so packets are slower; processes have their own time, and
beside values send notes, checks and one small collective before the first. Live times hold on an idle machine."""
FIGURES: dict[str, Callable[[Answer], float]] = {
    SECONDS: lambda answer: answer.median_s,
    BYTES: lambda answer: answer.total_bytes,
}


@dataclass(frozen=True)
class Difference:
    """How far two answers are apart.

    Attributes:
        tolerance: what is compared, and how far apart it may be.
        share: what the answer is above the other, as a share of that.
    """

    tolerance: Tolerance
    share: float

    @property
    def is_within(self) -> bool:
        """Whether it is what is known of them."""
        return self.tolerance.least <= self.share <= self.tolerance.most

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        known = self.tolerance
        return {
            "of": known.of, "answer": known.answer, "against": known.against, "share": self.share,
            "least": known.least, "most": known.most, "is_within": self.is_within,
        }  # fmt: skip


def differences(answers: Sequence[Answer]) -> list[Difference]:
    """How far the answers that were given are apart."""
    given = {_kind(answer): answer for answer in answers if not answer.refusal}
    found = []
    for tolerance in TOLERANCES:
        if tolerance.answer in given and tolerance.against in given:
            figure = FIGURES[tolerance.of]
            share = figure(given[tolerance.answer]) / figure(given[tolerance.against]) - 1
            found.append(Difference(tolerance, share))
    return found


def _kind(answer: Answer) -> str:
    return answer.name if answer.name in {FLOWS, LIVE} else PACKETS
