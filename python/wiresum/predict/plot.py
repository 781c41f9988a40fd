"""A prediction as a picture: rates over time."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from wiresum.picture import picture
from wiresum.predict.prediction import FlowRates, Prediction

KINDS = ("gradient", "result")
DIGITS = 6
"""Decimal places of seconds and of Mbit/s up to which flows are equal."""


def draw(prediction: Prediction, path: Path) -> None:
    """Draws the rate of every flow over time, gradients and results apart; flows that are equal are one line.

    Args:
        prediction: what to draw.
        path: of the picture; the ending chooses the format, as .png or .svg.

    Raises:
        SupportError: matplotlib is not installed, or the file cannot be written.
    """
    kinds = [kind for kind in KINDS if any(one.flow.kind == kind for one in prediction.flows)]
    size = (9, 3.2 * len(kinds))
    with picture(path, len(kinds), figsize=size, sharex=True, squeeze=False) as (figure, rows):
        for axes, kind in zip(rows[:, 0], kinds, strict=True):
            for label, times, rates in _groups([flow for flow in prediction.flows if flow.flow.kind == kind]):
                axes.plot(times, rates, label=label)
            axes.set(ylabel=f"{kind}s (Mbit/s)", xlim=(0, prediction.seconds), ylim=(0, None))
            axes.legend(fontsize=7, ncols=3)
        rows[-1, 0].set(xlabel="time (s)")
        figure.suptitle(f"Predicted: {prediction.seconds:.3f} s", fontsize=10)


def _groups(flows: Sequence[FlowRates]) -> Iterator[tuple[str, list[float], list[float]]]:
    """Labels and corners of lines, one for all flows that begin, change and end alike."""
    alike: dict[tuple[tuple[float, ...], tuple[float, ...]], list[FlowRates]] = defaultdict(list)
    for one in flows:
        times, rates = _steps(one)
        alike[tuple(round(time, DIGITS) for time in times), tuple(round(rate, DIGITS) for rate in rates)].append(one)
    for (corners, heights), group in alike.items():
        yield _label(group), list(corners), list(heights)


def _label(group: Sequence[FlowRates]) -> str:
    """One flow by its ends; several by how many there are and by the end that they share."""
    sources, targets = ({getattr(one.flow, end) for one in group} for end in ("source", "target"))
    if len(group) == 1:
        return f"{sources.pop()} → {targets.pop()}"
    if len(targets) == 1:
        return f"{len(sources)} senders → {targets.pop()}"
    if len(sources) == 1:
        return f"{sources.pop()} → {len(targets)} receivers"
    return f"{len(group)} flows, {len(sources)} senders → {len(targets)} receivers"


def _steps(one: FlowRates) -> tuple[list[float], list[float]]:
    """The corners of its rate over time, in seconds and Mbit/s."""
    times, rates = [one.flow.start_seconds], [0.0]
    for span in one.spans:
        if span.begin_seconds > times[-1]:
            times += [times[-1], span.begin_seconds]
            rates += [0.0, 0.0]
        times += [span.begin_seconds, span.end_seconds]
        rates += [span.rate_bps / 1e6] * 2
    return [*times, times[-1]], [*rates, 0.0]
