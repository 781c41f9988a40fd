"""What a daemon does now: two of its statuses, one after the other, as rates and shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BITS_PER_BYTE = 8
LEAST_S = 1e-6
SUMS = ("completed", "forwarded")
"""Verdicts of the last contribution to a fragment: each is one sum."""
TAKEN = ("first", "added", *SUMS)
"""Verdicts of contributions that are in a sum."""
AGAIN = ("duplicate", "answered", "reforwarded")
"""Verdicts of contributions that were in a sum already: something was lost, or late."""
UNSUMMED = ("collision", "bypassed", "overlap", "refused")
"""Verdicts of contributions that a switch passed on or back, as it had no slot for them."""
DROPPED = ("malformed", "foreign", "bad_contributor", "forged", "damaged", "mismatch")


@dataclass(frozen=True)
class JobLoad:
    """What one job does at one node.

    Attributes:
        node: the node's number.
        engine: what adds there.
        job: the job's number.
        members: seats that are taken: a worker or node below has one for each stream.
        expected_members: seats that the plan has there.
        rate_bps: bytes of its datagrams as bit/s.
        sums_per_s: fragments that were completed, or sent up.
        summed_share: contributions that went into a sum, of those that came; None if none came.
        again_share: contributions that came although a sum had them, of those that came; None if none came.
        asked_per_s: questions of workers for what is late or lost.
        dropped: packets that could not be taken, since the start.
        over_quota: packets beyond the job's quota, since the start.
        quota_bps: the quota as bit/s; None where there is none.
        memory_bytes: slots or rows.
        sums: fragments since the start.
    """

    node: int
    engine: str
    job: int
    members: int
    expected_members: int
    rate_bps: float
    sums_per_s: float
    summed_share: float | None
    again_share: float | None
    asked_per_s: float
    dropped: int
    over_quota: int
    quota_bps: float | None
    memory_bytes: int
    sums: int


def loads(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[JobLoad]:
    """The jobs of a node, by two answers to `status`. A job that has just come began with nothing."""
    seconds = max(after["uptime_s"] - before["uptime_s"], LEAST_S)
    former = {job["job"]: job for job in before["jobs"]}
    return [_load(after, former.get(job["job"], {"bytes": 0, "verdicts": {}}), job, seconds) for job in after["jobs"]]


def _load(node: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any], seconds: float) -> JobLoad:
    def grown(*verdicts: str) -> int:
        # A daemon that was replaced counts from 0.
        return max(0, total(after["verdicts"], *verdicts) - total(before["verdicts"], *verdicts))

    came = grown(*TAKEN, *AGAIN, *UNSUMMED, *DROPPED, "over_quota")
    quota = after["quota"]["bytes_per_second"]
    return JobLoad(
        node=node["node"],
        engine=node["engine"],
        job=after["job"],
        members=after["members"],
        expected_members=after["expected_members"],
        rate_bps=max(0, after["bytes"] - before["bytes"]) * BITS_PER_BYTE / seconds,
        sums_per_s=grown(*SUMS) / seconds,
        summed_share=grown(*TAKEN) / came if came else None,
        again_share=grown(*AGAIN) / came if came else None,
        asked_per_s=grown("probed") / seconds,
        dropped=total(after["verdicts"], *DROPPED),
        over_quota=total(after["verdicts"], "over_quota"),
        quota_bps=None if quota is None else quota * BITS_PER_BYTE,
        memory_bytes=after["memory_bytes"],
        sums=total(after["verdicts"], *SUMS),
    )


def total(verdicts: Mapping[str, int], *names: str) -> int:
    """Packets with any of these verdicts; aggregators and switches count different ones."""
    return sum(verdicts.get(name, 0) for name in names)
