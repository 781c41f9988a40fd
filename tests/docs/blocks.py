"""The code blocks of pages."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", flags=re.DOTALL | re.MULTILINE)
SHELLS = {"", "sh", "console"}


@dataclass(frozen=True)
class Block:
    """One block.

    Attributes:
        place: page and line, for people.
        language: as the page says.
        text: the content.
    """

    place: str
    language: str
    text: str


def pages() -> list[Path]:
    """What people read."""
    return sorted(
        [
            ROOT / "README.md",
            ROOT / "CONTRIBUTING.md",
            *(ROOT / "docs").glob("*.md"),
            *(ROOT / "docs/extend").glob("*.md"),
        ]
    )


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        content = "\n".join(each.removeprefix(found[1]) for each in found[3].splitlines())
        yield Block(f"{page.relative_to(ROOT)}:{line}", found[2], content)


def commands(program: str) -> Iterator[tuple[str, list[str]]]:
    """Places and arguments of the command lines of a program; those with gaps, as `…`, are left out."""
    for page in pages():
        for block in blocks(page):
            if block.language in SHELLS:
                for line in block.text.replace("\\\n", " ").splitlines():
                    yield from ((block.place, words) for words in _calls(line, program))


def _calls(line: str, program: str) -> Iterator[list[str]]:
    if "…" in line.partition("#")[0]:
        return
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    if words and words[0] == program:
        ends = [index for index, word in enumerate(words) if word in {"|", ">", "&&", ";", "2>", ">>"}]
        yield words[1 : min(ends, default=len(words))]
