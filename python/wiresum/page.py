"""A report as one HTML file: headings, tables and pictures, without a request to elsewhere."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from wiresum.errors import SupportError

TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
"""Kinds of pictures that go into a page, by their names' ends."""
STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: 0.3rem 0.8rem; border-bottom: 1px solid #8884; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #8888; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
tr.failed td { color: #d55e00; }
figure { margin: 1.5rem 0; }
img { max-width: 100%; background: white; }
figcaption, footer { color: #888; font-size: 0.9rem; }
"""


class Page:
    """A page that grows from its top down.

    Args:
        title: of the page; its first heading, too.

    Example:
        >>> page = Page("Sums")
        >>> page.table(("method", "s"), [("ring <b>", "0.5")])
        >>> "<td>ring &lt;b&gt;</td>" in page.html()
        True
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts = [f"<h1>{escape(title)}</h1>"]

    def heading(self, text: str) -> None:
        """A section begins."""
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def lines(self, lines: Iterable[str]) -> None:
        """Paragraphs; empty ones are left out."""
        self._parts += [f"<p>{escape(line)}</p>" for line in lines if line]

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[str]], failed: Iterable[bool] | None = None
    ) -> None:
        """A table whose cells are texts; rows that failed stand out."""
        shown = list(rows)
        marks = [False] * len(shown) if failed is None else list(failed)
        head = "".join(f"<th>{escape(column)}</th>" for column in columns)
        body = "\n".join(_row(row, mark) for row, mark in zip(shown, marks, strict=True))
        self._parts.append(f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>")

    def picture(self, path: Path, caption: str) -> None:
        """A picture from a file, .png or .svg, which becomes a part of the page."""
        data = base64.b64encode(path.read_bytes()).decode("ascii")
        source = f"data:{TYPES[path.suffix]};base64,{data}"
        text = escape(caption)
        self._parts.append(f'<figure><img src="{source}" alt="{text}"><figcaption>{text}</figcaption></figure>')

    def html(self) -> str:
        """The whole page."""
        head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
        title = f"<title>{escape(self._title)}</title>"
        body = "\n".join(self._parts)
        return f'<!doctype html>\n<html lang="en"><head>{head}{title}</head>\n<body>\n{body}\n</body></html>\n'

    def write(self, path: Path) -> None:
        """Writes the page.

        Raises:
            SupportError: the file cannot be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.html(), encoding="utf-8")
        except OSError as refused:
            raise SupportError(f"{path} cannot be written ({refused.strerror}); give another file to --html") from None


def _row(cells: Sequence[str], failed: bool) -> str:
    shown = "".join(f"<td{_kind(cell)}>{escape(cell)}</td>" for cell in cells)
    return f'<tr class="failed">{shown}</tr>' if failed else f"<tr>{shown}</tr>"


def _kind(cell: str) -> str:
    """Numbers stand under one another."""
    return ' class="number"' if cell.replace(",", "").replace(".", "").replace("e-", "").isdigit() else ""
