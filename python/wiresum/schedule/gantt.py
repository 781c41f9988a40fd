"""A timetable as a picture: jobs over time, and for each unit its circuits, darkness and places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wiresum.picture import BLUE, GREEN, ORANGE, picture
from wiresum.schedule.model import Interval, Timetable
from wiresum.schedule.words import Lit, added, before, lit_in

COLOURS = {"switch": GREEN, "server": BLUE}
WIDTH_IN, ROW_IN, MOST_IN = 9.0, 0.16, 40.0


def draw(timetable: Timetable, instance: Mapping[str, Any], path: Path) -> None:
    """Writes the picture.

    Raises:
        SupportError: matplotlib is not installed, or the file cannot be written.
    """
    jobs = sorted(timetable.cost.jobs, key=lambda job: (job.start_s, job.job))
    units = [unit["name"] for unit in instance["units"]]
    heights = [len(jobs) + 4, len(units) + 4]
    size = (WIDTH_IN, min(MOST_IN, ROW_IN * sum(heights) + 2))
    with picture(path, rows=2, figsize=size, sharex=True, height_ratios=heights) as (_, (above, below)):
        for row, job in enumerate(jobs):
            above.barh(row, job.end_s - job.start_s, left=job.start_s, color=COLOURS[job.by])
        above.set_yticks(range(len(jobs)), [str(job.job) for job in jobs], fontsize=6)
        above.set_ylabel("job")
        above.invert_yaxis()
        above.legend(handles=[_patch(colour, f"summed by a {by}") for by, colour in COLOURS.items()], loc="lower right")
        _units(below, timetable, instance, units)
        below.set_xlabel("seconds")


def _units(axes: Any, timetable: Timetable, instance: Mapping[str, Any], units: list[str]) -> None:
    """Ports in use as shades, darkness of new circuits in black, places as a number."""
    ports = {unit["name"]: max(unit["ports"], 1) for unit in instance["units"]}
    homes = {job["id"]: list(job["traffic"]["star"]["workers"]) for job in instance["jobs"] if "star" in job["traffic"]}
    lit = before(instance)
    for interval in timetable.intervals:
        used, new, places = _taken(interval, lit, homes)
        seconds = interval.until_s - interval.from_s
        for row, unit in enumerate(units):
            share = used[unit] / ports[unit]
            axes.barh(row, seconds, left=interval.from_s, color=ORANGE, alpha=0.15 + 0.85 * min(1.0, share))
            if new[unit]:
                axes.barh(row, min(instance["dark_s"], seconds), left=interval.from_s, color="black")
            if places[unit]:
                middle = interval.from_s + seconds / 2
                axes.text(middle, row, str(places[unit]), ha="center", va="center", fontsize=5)
        lit = lit_in(interval)
    axes.set_yticks(range(len(units)), units, fontsize=6)
    axes.set_ylabel("ports in use (shade), places (number)")
    axes.invert_yaxis()


def _taken(
    interval: Interval, lit: Lit, homes: Mapping[int, list[str]]
) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Circuits, new circuits and places of each unit."""
    used, new, places = Counter[str](), Counter[str](), Counter[str]()
    for one in interval.circuits:
        used.update(dict.fromkeys(one.between, one.circuits))
    for pair, count in added(interval, lit).items():
        new.update(dict.fromkeys(pair, count))
    places.update(unit for rate in interval.rates if rate.by == "switch" for unit in homes[rate.job])
    return used, new, places


def _patch(colour: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=colour, label=label)
