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


def wrong_words() -> re.Pattern[str]:
    """The left column of the table of words."""
    table = (ROOT / "docs/writing.md").read_text(encoding="utf-8").partition("| not | but |\n| --- | --- |\n")[2]
    rows = [line.split("|")[1] for line in table.partition("\n\n")[0].splitlines()]
    words = [word.strip() for row in rows for word in row.split(",")]
    return re.compile(rf"\b({'|'.join(map(re.escape, words))})\b", re.IGNORECASE)


def test_the_table_of_words_is_found():
    assert wrong_words().search("a fail-over at the begin")
    assert not wrong_words().search("a failover at the beginning of a round")


def test_words_are_those_of_the_field():
    wrong = wrong_words()
    rules = "docs/writing.md"
    texts = lines("*.md", "python/*.py", "scripts/*.py", f":!{rules}", ":!CHANGELOG.md")
    assert [f"{place}: {line.strip()}" for place, line in texts if wrong.search(line)] == []
