"""A run as a picture over time: who computed and communicated, how busy links were, and what switches held."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from wiresum.picture import BLUE, PALE, picture
from wiresum.sim.outcome import Record, SimulationOutcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LINKS = 20
"""More rows than that cannot be read."""
MOST_WORKERS = 64
MOST_SWITCHES = 8
WIDTH_INCHES = 9
ROW_INCHES, HEAD_INCHES, SLOTS_INCHES = 0.25, 0.7, 1.8
COMPUTING, COMMUNICATING = PALE, BLUE
LOADS = "YlGnBu"
"""Pale where a link is idle, dark where it is full."""


def draw(outcome: SimulationOutcome, path: Path) -> None:
    """Draws the timelines of workers, of the busiest links and of the slots of switches, above each other.

    Args:
        outcome: of a run with a timeline.
        path: of the picture; the ending chooses the format, as .png or .svg.

    Raises:
        SupportError: matplotlib is not installed, or the file cannot be written.
    """
    panels = _panels(outcome)
    heights = [height for height, _ in panels]
    size = (WIDTH_INCHES, sum(heights))
    with picture(path, len(panels), figsize=size, height_ratios=heights, sharex=True, squeeze=False) as (_, rows):
        for axes, (_, panel) in zip(rows[:, 0], panels, strict=True):
            panel(axes)
            axes.tick_params(labelsize=7)
        rows[-1, 0].set(xlabel="time (s)", xlim=(0, outcome.end["at_s"] or None))


def _panels(outcome: SimulationOutcome) -> list[tuple[float, Callable[[Axes], None]]]:
    """Inches and drawer of each part that there is something for."""
    workers, links = _by_worker(outcome), _by_link(outcome)
    panels: list[tuple[float, Callable[[Axes], None]]] = [
        (HEAD_INCHES + ROW_INCHES * len(workers), lambda axes: _draw_workers(axes, workers))
    ]
    if links:
        panels.append((HEAD_INCHES + ROW_INCHES * len(links), lambda axes: _draw_links(axes, outcome, links)))
    if any(record["held"] for record in outcome.slots):
        panels.append((SLOTS_INCHES, lambda axes: _draw_slots(axes, outcome)))
    return panels


def _draw_workers(axes: Axes, rows: list[tuple[str, list[Record]]]) -> None:
    for row, (_, parts) in enumerate(rows):
        for part in parts:
            axes.broken_barh([_span(part, "compute_s", "begin_s")], (row - 0.4, 0.8), color=COMPUTING)
            axes.broken_barh([_span(part, "begin_s", "end_s")], (row - 0.4, 0.8), color=COMMUNICATING)
    axes.set(yticks=range(len(rows)), yticklabels=[name for name, _ in rows])
    axes.set_title("workers: computing (grey), communicating or waiting for others (blue)", fontsize=9)
    axes.invert_yaxis()


def _draw_links(axes: Axes, outcome: SimulationOutcome, rows: list[tuple[Record, list[Record]]]) -> None:
    """A row for each direction, its colour the load in each slice of time."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable

    colours = colormaps[LOADS]
    for row, (link, slices) in enumerate(rows):
        spans = [_span(part, "at_s", "until_s") for part in slices]
        loads = [_load(part, link["rate_bps"], outcome.end["at_s"]) for part in slices]
        axes.broken_barh(spans, (row - 0.4, 0.8), facecolors=[colours(load) for load in loads])
    names = [f"{link['source']} → {link['target']}" for link, _ in rows]
    axes.set(yticks=range(len(rows)), yticklabels=names)
    axes.set_title("busiest links", fontsize=9)
    axes.invert_yaxis()
    bar = axes.figure.colorbar(ScalarMappable(cmap=colours), ax=axes, pad=0.01, ticks=[0, 1])
    bar.ax.set_yticklabels(["idle", "full"], fontsize=7)


def _draw_slots(axes: Axes, outcome: SimulationOutcome) -> None:
    by_switch: dict[str, list[Record]] = {}
    for record in outcome.slots:
        by_switch.setdefault(record["site"], []).append(record)
    fullest = sorted(by_switch, key=lambda site: -max(record["held"] for record in by_switch[site]))
    for site in fullest[:MOST_SWITCHES]:
        records = by_switch[site]
        axes.step([r["at_s"] for r in records], [r["held"] for r in records], where="post", label=site, linewidth=0.9)
    axes.set_title("slots with unfinished sums", fontsize=9)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7, loc="upper right", ncols=4)


def _by_worker(outcome: SimulationOutcome) -> list[tuple[str, list[Record]]]:
    """By worker: its name and its parts of collectives."""
    workers: dict[tuple[str, int], list[Record]] = {}
    for record in outcome.workers:
        workers.setdefault((record["job"], record["rank"]), []).append(record)
    return [(f"{job} {rank}", parts) for (job, rank), parts in sorted(workers.items())][:MOST_WORKERS]


def _by_link(outcome: SimulationOutcome) -> list[tuple[Record, list[Record]]]:
    """The busiest directions that have a rate, each with its slices."""
    slices = {key: list(group) for key, group in groupby(outcome.slices, lambda part: (part["link"], part["source"]))}
    with_slices = [link for link in outcome.busiest(len(outcome.links)) if (link["link"], link["source"]) in slices]
    limited = [link for link in with_slices if link["rate_bps"]][:MOST_LINKS]
    return [(link, slices[link["link"], link["source"]]) for link in limited]


def _load(part: Record, rate_bps: float, end_s: float) -> float:
    """Fraction of a slice, as far as the run goes, in which the direction was busy."""
    seconds = min(part["until_s"], end_s) - part["at_s"]
    return min(8 * part["wire_bytes"] / (rate_bps * seconds), 1.0) if seconds > 0 else 0.0


def _span(part: Record, begin: str, end: str) -> tuple[float, float]:
    return part[begin], part[end] - part[begin]
