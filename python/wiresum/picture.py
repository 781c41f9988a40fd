"""The frame of every picture: the drawing library is found, the file is written or refused, memory is given back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wiresum.errors import SupportError

DPI = 150


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
    figure, axes = pyplot.subplots(rows, columns, **{"layout": "constrained", **options})
    try:
        yield figure, axes
        _write(figure, path)
    finally:
        pyplot.close(figure)


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
