"""How figures are written in tables of findings."""

from __future__ import annotations

from collections.abc import Mapping

from wiresum.bench.result import Report


def percent(fraction: float, digits: int = 1) -> str:
    """A fraction as a percentage.

    Example:
        >>> percent(0.8264)
        '82.6 %'
    """
    return f"{100 * fraction:.{digits}f} %"


def less(reduction: float, digits: int = 1) -> str:
    """A change by its reduction.

    Example:
        >>> less(0.4918), less(-0.25, 0)
        ('−49.2 %', '+25 %')
    """
    return f"{-100 * reduction:+.{digits}f} %".replace("-", "−")


def times(ratio: float) -> str:
    """A ratio.

    Example:
        >>> times(1.204)
        '1.20 ×'
    """
    return f"{ratio:.2f} ×"


def spread(values: list[float], unit: str = "×") -> str:
    """The least and the largest.

    Example:
        >>> spread([3.541, 2.77])
        '2.77 to 3.54 ×'
    """
    return f"{min(values):.2f} to {max(values):.2f} {unit}"


def listed(values: Mapping[str, str]) -> str:
    """Names with their values.

    Example:
        >>> listed({"NCCL": "66.7 %", "BytePS": "66.7 %"})
        'NCCL 66.7 %, BytePS 66.7 %'
    """
    return ", ".join(f"{name} {value}" for name, value in values.items())


def live_plans(report: Report) -> str:
    """Plans of switch networks that ran in namespaces: rates beside predicted ones, and bytes on links."""
    rates = listed(
        {one.name: f"{one.median:.1f} of {one.extra['predicted']:.1f} Mbit/s predicted" for one in report.results}
    )
    notes = {one.extra["bytes"].split(";")[0] for one in report.results}
    return f"live at 1:100: {rates}; {' and '.join(sorted(notes))}"
