"""What `wiresum testbed run` says at the end, for people and for machines."""

import signal
from dataclasses import asdict
from typing import Any

from wiresum.testbed import RunOutcome, Testbed

SIGNALLED = 128
"""What is added to a signal's number."""


def summarize(bed: Testbed, backend: str, outcome: RunOutcome, counters: dict[str, Any]) -> dict[str, Any]:
    """The run as one JSON object."""
    return {
        "testbed": bed.name,
        "topology": bed.topology.name,
        "backend": backend,
        "workers": bed.workers,
        "exit_codes": outcome.exit_codes,
        "exit_code": outcome.exit_code,
        "first_failure": outcome.first_failure,
        "duration_s": outcome.duration_s,
        "links": {link: asdict(seen) for link, seen in outcome.traffic.items()},
        "losses": {link: [asdict(count) if count else None for count in both] for link, both in outcome.losses.items()},
        "aggregators": counters,
        "left_out": bed.left_out,
    }


def describe(bed: Testbed, outcome: RunOutcome) -> str:
    """The run in a line or two."""
    ended = "all workers ended well" if outcome.first_failure is None else _failure(bed, outcome)
    text = f"{ended} after {outcome.duration_s:.1f} s"
    if outcome.traffic:
        link, seen = max(outcome.traffic.items(), key=lambda item: item[1].busiest_bytes)
        text += f"; busiest link {link}: {seen.busiest_bytes / 1e6:.1f} MB"
    return text


def _failure(bed: Testbed, outcome: RunOutcome) -> str:
    rank = outcome.first_failure or 0
    return f"rank {rank} ({bed.workers[rank]}) {_how(outcome.exit_codes[rank])}, which ended the run"


def _how(exit_code: int) -> str:
    """How a process ended, in words: codes above 128 are signals, as shells have it."""
    try:
        name = signal.Signals(exit_code - SIGNALLED).name
    except ValueError:
        return f"failed with exit code {exit_code}"
    hint = " (out of memory?)" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"
