"""A prediction as a picture: rates over time."""

from pathlib import Path

from wiresum.picture import picture
from wiresum.predict.prediction import FlowRates, Prediction

KINDS = ("gradient", "result")


def draw(prediction: Prediction, path: Path) -> None:
    """Draws the rate of every flow over time, gradients and results apart.

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
            for one in (flow for flow in prediction.flows if flow.flow.kind == kind):
                axes.plot(*_steps(one), label=f"{one.flow.source} → {one.flow.target}", linewidth=1.6)
            axes.set(ylabel=f"{kind}s (Mbit/s)", xlim=(0, prediction.seconds), ylim=(0, None))
            axes.legend(frameon=False, fontsize=7, ncols=3)
            axes.spines[["top", "right"]].set_visible(False)
        rows[-1, 0].set(xlabel="time (s)")
        figure.suptitle(f"Predicted: {prediction.seconds:.3f} s", fontsize=10)


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
