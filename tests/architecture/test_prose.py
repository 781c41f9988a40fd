"""What a program can see of docs/writing.md."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_CHARACTERS = 120
MARKS = r'^\s*(?://[/!]?|#|"""|/\*\*?|\*)\s*'
FRAGMENT = re.compile(MARKS + r"(?:Of(?! course)|Whose|Whence|(?:To|For|By|Against) whom|By what|See the module)\b")
UNBREAKABLE = re.compile(r"^\s*\||https?://|\]\(|^    ")
"""Tables, links and formulas."""


def lines(*patterns: str) -> Iterator[tuple[str, str]]:
    """Places and lines of tracked files."""
    names = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\n")):
        if (ROOT / name).exists():
            text = (ROOT / name).read_text(encoding="utf-8")
            yield from ((f"{name}:{number}", line) for number, line in enumerate(text.splitlines(), 1))


def prose(*patterns: str) -> Iterator[tuple[str, str]]:
    """Lines of pages without what is quoted: commands and their output."""
    is_quoted = False
    for place, line in lines(*patterns):
        is_quoted = is_quoted != line.lstrip().startswith("```")
        if not is_quoted and not UNBREAKABLE.search(line):
            yield place, line


def test_comments_begin_with_what_the_thing_is():
    code = lines("*.rs", "*.py", "*.c", "*.h", "*.cpp", "*.p4")
    assert [f"{place}: {line.strip()}" for place, line in code if FRAGMENT.match(line)] == []


def test_lines_of_pages_are_short():
    assert [place for place, line in prose("*.md") if len(line) > MOST_CHARACTERS] == []
