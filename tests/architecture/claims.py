"""Tables of pages that name tests: their rows, and whether these tests are there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEST = re.compile(r"`([\w/.-]+)::(\w+)`")


def rows(page: str, heading: str) -> list[list[str]]:
    """Cells of the rows of the table of a section."""
    section = (ROOT / page).read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def named(cells: Iterable[str]) -> list[tuple[str, str]]:
    """File and name of the tests that cells name, each once."""
    return sorted({found for cell in cells for found in TEST.findall(cell)})


def is_there(file: str, name: str) -> bool:
    """Whether a file has a test."""
    text = (ROOT / file).read_text()
    is_test = r"^def test_" if file.endswith(".py") else r"#\[test\]\n(?:\s*(?:#|//).*\n)*\s*fn "
    return bool(re.search(rf"{is_test}{name.removeprefix('test_')}\(", text, flags=re.MULTILINE))
