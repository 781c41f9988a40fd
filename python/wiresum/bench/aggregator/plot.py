"""Pictures of `wiresum bench aggregator --engines …`: one file per question."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from wiresum.bench.result import Report, Result
from wiresum.picture import picture

VALUE_BITS = 32

PICTURES: dict[str, tuple[str, str, str, str, Callable[[Result], float | None]]] = {
    "rate-by-values": ("rate", "values", "int32 values in a packet", "packets/s of one core", lambda r: r.median),
    "throughput-by-values": (
        "rate", "values", "int32 values in a packet", "Gbit/s of gradient, one core",
        lambda r: r.median * r.extra["values"] * VALUE_BITS / 1e9,
    ),
    "cpu-by-load": ("load", "offered_packets_per_s", "packets/s offered", "% of a core", lambda r: r.median),
    "latency-by-load": (
        "load", "offered_packets_per_s", "packets/s offered", "added round trip, µs",
        lambda r: r.extra["added_latency_us"],
    ),
    "loss-by-load": ("load", "offered_packets_per_s", "packets/s offered", "% lost", lambda r: 100 * r.extra["loss"]),
}  # fmt: skip
"""By file name: kind of result, quantity on the x axis, both labels, and the y value."""
SIZE_INCHES = (6, 4)


def draw(report: Report, folder: Path) -> list[Path]:
    """Draws every picture that the report has results for.

    Raises:
        SupportError: matplotlib is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kinds = {result.extra["kind"] for result in report.results}
    paths = {name: folder / f"aggregator-{name}.png" for name, (kind, *_) in PICTURES.items() if kind in kinds}
    for name, path in paths.items():
        draw_one(report, name, path)
    return list(paths.values())


def curves(report: Report, name: str) -> dict[str, list[tuple[float, float]]]:
    """The points of a picture by engine and what it was fed, along the x axis."""
    kind, quantity, _, _, y = PICTURES[name]
    lines: dict[str, list[tuple[float, float]]] = {}
    for result in report.results:
        value = y(result) if result.extra["kind"] == kind else None
        if value is not None:
            fed = " on frames" if result.extra.get("feed") == "frames" else ""
            lines.setdefault(f"{result.extra['engine']}{fed}", []).append((float(result.extra[quantity]), value))
    return {engine: sorted(points) for engine, points in lines.items()}


def draw_one(report: Report, name: str, path: Path) -> None:
    """Draws one of `PICTURES` into a file.

    Raises:
        SupportError: matplotlib is not installed.
    """
    _, _, x_label, y_label, _ = PICTURES[name]
    with picture(path, figsize=SIZE_INCHES) as (_, axes):
        for engine, points in curves(report, name).items():
            axes.plot([x for x, _ in points], [y for _, y in points], marker="o", label=engine)
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend()
