"""A prediction as a picture: rates over time."""

from pathlib import Path

from wiresum.errors import SupportError
from wiresum.plan.predict.prediction import FlowRates, Prediction

KINDS = ("gradient", "result")
DPI = 150


def draw(prediction: Prediction, path: Path) -> None:
    """Draws the rate of every flow over time, gradients and results apart.

    Args:
        prediction: what to draw.
        path: of the picture; the ending chooses the format, as .png or .svg.

    Raises:
        SupportError: matplotlib is not installed, or the file cannot be written.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise SupportError("drawing needs matplotlib; install it with `pip install matplotlib`") from None
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    kinds = [kind for kind in KINDS if any(one.flow.kind == kind for one in prediction.flows)]
    figure, rows = plt.subplots(len(kinds), 1, figsize=(9, 3.2 * len(kinds)), sharex=True, squeeze=False)
    for axes, kind in zip(rows[:, 0], kinds, strict=True):
        for one in (flow for flow in prediction.flows if flow.flow.kind == kind):
            axes.plot(*_steps(one), label=f"{one.flow.source} → {one.flow.target}", linewidth=1.6)
        axes.set(ylabel=f"{kind}s (Mbit/s)", xlim=(0, prediction.seconds), ylim=(0, None))
        axes.legend(frameon=False, fontsize=7, ncols=3)
        axes.spines[["top", "right"]].set_visible(False)
    rows[-1, 0].set(xlabel="time (s)")
    figure.suptitle(f"Predicted: {prediction.seconds:.3f} s", fontsize=10)
    figure.tight_layout()
    try:
        figure.savefig(path, dpi=DPI)
    except (OSError, ValueError) as refused:
        raise SupportError(f"{path} cannot be drawn ({refused}); give a path that ends in .png or .svg") from None
    finally:
        plt.close(figure)


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
