"""A run as a picture: who computed and communicated when, and how busy links were."""

from pathlib import Path

from wiresum.errors import SupportError
from wiresum.sim.outcome import Outcome, Record

MOST_LINKS = 20
"""More bars than that cannot be read."""
MOST_WORKERS = 64
DPI = 150
COMPUTING, COMMUNICATING, LINK = "#c8c8c8", "#3b6fb6", "#5a9e6f"


def draw(outcome: Outcome, path: Path) -> None:
    """Draws the workers' timeline and the busiest links.

    Args:
        outcome: what to draw.
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

    rows = _rows(outcome)
    links = outcome.busiest(MOST_LINKS)
    heights = [0.25 * len(rows) + 0.6, 0.25 * len(links) + 0.6]
    figure, (above, below) = plt.subplots(2, 1, figsize=(9, sum(heights) + 1), height_ratios=heights)
    for row, (_, parts) in enumerate(rows):
        for part in parts:
            above.broken_barh([_span(part, "compute_s", "begin_s")], (row - 0.4, 0.8), color=COMPUTING)
            above.broken_barh([_span(part, "begin_s", "end_s")], (row - 0.4, 0.8), color=COMMUNICATING)
    above.set(yticks=range(len(rows)), yticklabels=[name for name, _ in rows], xlabel="time (s)")
    above.set_title("workers: computing (grey), communicating (blue)", fontsize=9)
    below.barh(range(len(links)), [100 * (outcome.utilisation_of(link) or 0) for link in links], color=LINK)
    names = [f"{link['source']} → {link['target']}" for link in links]
    below.set(yticks=range(len(links)), yticklabels=names, xlabel="busy (% of the run)", xlim=(0, 100))
    for axes in (above, below):
        axes.invert_yaxis()
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    try:
        figure.savefig(path, dpi=DPI)
    except (OSError, ValueError) as refused:
        raise SupportError(f"{path} cannot be drawn ({refused}); give a path that ends in .png or .svg") from None
    finally:
        plt.close(figure)


def _rows(outcome: Outcome) -> list[tuple[str, list[Record]]]:
    """By worker: its name and its parts of collectives."""
    workers: dict[tuple[str, int], list[Record]] = {}
    for record in outcome.workers:
        workers.setdefault((record["job"], record["rank"]), []).append(record)
    return [(f"{job} {rank}", parts) for (job, rank), parts in sorted(workers.items())][:MOST_WORKERS]


def _span(part: Record, begin: str, end: str) -> tuple[float, float]:
    return part[begin], part[end] - part[begin]
