"""Says which pages of the site would load something from elsewhere; there may be none."""

import sys
from html.parser import HTMLParser
from pathlib import Path

LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("link", "href")}
HARMLESS = {"canonical", "next", "prev", "alternate"}
"""Kinds of links between pages: nothing is loaded by them."""


class Requests(HTMLParser):
    """Collects what a page loads from other hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Looks at one tag."""
        given = dict(attrs)
        if given.get("rel") in HARMLESS:
            return
        self.found += [
            value for name, value in attrs if (tag, name) in LOADED and value and value.startswith(("http", "//"))
        ]


def requests(page: Path) -> list[str]:
    """What a page loads from other hosts."""
    parser = Requests()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser.found


def main(folder: Path) -> int:
    """Looks at every page of a folder."""
    found = [f"{page}: {request}" for page in sorted(folder.rglob("*.html")) for request in requests(page)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
