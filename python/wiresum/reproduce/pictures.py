"""Draws a paper's figures from measured reports, each with a line that says how it was obtained."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

from wiresum.bench.result import Report, machine
from wiresum.errors import SupportError
from wiresum.reproduce.row import Paper

FONT_SIZE = 14
"""Pixels."""
LINE_HEIGHT = 18
MARGIN = 8
CHARACTER_WIDTH = 7.6
"""Mean, in pixels; where lines break."""


def draw(paper: Paper, reports: Mapping[str, Report], folder: Path) -> Iterator[tuple[str, Path]]:
    """Draws what there are reports for; each picture's name in the paper, and its file.

    Raises:
        SupportError: matplotlib is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for figure in paper.figures:
        if figure.needs in reports:
            path = folder / figure.file
            figure.draw(reports[figure.needs], path)
            stamp(path, f"Like {figure.name}. {provenance(paper, figure.needs)}")
            yield figure.name, path


def provenance(paper: Paper, benchmark: str) -> str:
    """How a figure was obtained."""
    host = machine()
    by = paper.benchmarks[benchmark]
    machinery = f"{host['cores']} cores, {host['cpu']}, Linux {host['kernel']}"
    return f"Ours, by `{by.command}`; {paper.conditions}, {by.network}; {machinery}."


def stamp(path: Path, text: str) -> None:
    """Adds lines of text below a PNG picture.

    Raises:
        SupportError: matplotlib, which brings the font and the library for pictures, is not installed.
    """
    try:
        from matplotlib import get_data_path
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise SupportError("drawing needs matplotlib; install it with `pip install matplotlib`") from None
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    lines = textwrap.wrap(text, int((picture.width - 2 * MARGIN) / CHARACTER_WIDTH))
    higher = Image.new("RGB", (picture.width, picture.height + LINE_HEIGHT * len(lines) + 2 * MARGIN), "white")
    higher.paste(picture)
    font = ImageFont.truetype(str(Path(get_data_path()) / "fonts/ttf/DejaVuSans.ttf"), FONT_SIZE)
    pen = ImageDraw.Draw(higher)
    for number, line in enumerate(lines):
        pen.text((MARGIN, picture.height + MARGIN + number * LINE_HEIGHT), line, fill="dimgrey", font=font)
    higher.save(path)
