"""The frame of every picture: one style, the drawing library, the file that is written or refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wiresum.errors import SupportError

DPI = 150
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
GREY, PALE = "#7f7f7f", "#d9d9d9"
CYCLE = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, GREY)
"""Okabe and Ito's colours, which people who see red and green alike tell apart; lines beyond these are dashed."""
OURS, RIVAL = BLUE, VERMILION
"""Wiresum, and what it is compared with, in every picture that has both."""
STYLE = {
    "font.family": "DejaVu Sans",  # matplotlib brings it
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#ececec",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "figure.facecolor": "white",
    "svg.fonttype": "none",  # letters stay letters, so that a page can search them
}


@contextmanager
def picture(path: Path, rows: int = 1, columns: int = 1, **options: Any) -> Iterator[tuple[Any, Any]]:
    """A figure to draw on, which becomes a file at the end of the block.

    Args:
        path: of the picture; the ending chooses the format, as .png or .svg. Its folder is made if there is none.
        rows: of axes.
        columns: of axes.
        options: passed to `matplotlib.pyplot.subplots`.

    Yields:
        Figure and axes, as `matplotlib.pyplot.subplots` gives them.

    Raises:
        SupportError: matplotlib is not installed, or the file cannot be written.

    Example:
        >>> with picture(Path("line.png")) as (figure, axes):  # doctest: +SKIP
        ...     axes.plot([1, 2], [3, 4])
    """
    pyplot = _pyplot()
    with pyplot.rc_context({**STYLE, "axes.prop_cycle": _cycle()}):
        figure, axes = pyplot.subplots(rows, columns, **{"layout": "constrained", **options})
        try:
            yield figure, axes
            _write(figure, path)
        finally:
            pyplot.close(figure)


def _cycle() -> Any:
    """Colours, first with whole lines and then with dashed ones."""
    from cycler import cycler

    return cycler(linestyle=["-", "--"]) * cycler(color=CYCLE)


def _write(figure: Any, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=DPI)
    except (OSError, ValueError) as refused:
        raise SupportError(f"{path} cannot be drawn ({refused}); give a path that ends in .png or .svg") from None


def _pyplot() -> Any:
    """The library, set to draw into files."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise SupportError("drawing needs matplotlib; install it with `pip install matplotlib`") from None
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt
