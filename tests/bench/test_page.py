"""Reports as pages: one file, with everything in it."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wiresum.bench.html import page
from wiresum.bench.result import Limit, Ratio, Report, Result
from wiresum.cli.main import app
from wiresum.errors import SupportError
from wiresum.page import Page

REPORT = Report(
    "sums",
    {"workers": 4, "links": "<500> Mbit/s & more"},
    [Result("ring", "s", [2.0, 1.0, 3.0]), Result("wiresum", "s", [0.5, 0.7]), Result("rate", "Gbit/s", [8.0])],
    [Ratio("ring / wiresum", 3.333)],
    Limit(0.4, "s", "bytes over the rate"),
    ["one machine"],
)
VOID = {"meta", "img", "link", "br"}


class Reader(HTMLParser):
    """Tags that open and close in order, and what the page asks for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.sources += [value for name, value in attrs if name in {"src", "href"}]
        self.open += [] if tag in VOID else [tag]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def read() -> Reader:
    return Reader(page(REPORT).html())


def test_a_page_has_every_figure_of_the_report(read: Reader):
    assert read.open == []
    text = " ".join(read.words)
    for expected in (
        "ring",
        "0.6",
        "<500> Mbit/s & more",
        "3.333",
        "Limit: 0.4 s – bytes over the rate",
        "one machine",
    ):
        assert expected in text


def test_a_page_asks_for_nothing_elsewhere(read: Reader):
    assert len(read.sources) == 1, "a picture for seconds; one result alone needs none"
    kind, _, data = read.sources[0].partition(";base64,")
    assert kind == "data:image/svg+xml"
    picture = base64.b64decode(data).decode()
    assert "ring" in picture
    assert not re.findall(r'(?:href|src)="(?!#)[^"]', picture)
    assert "url(http" not in page(REPORT).html() + picture
    assert "@import" not in page(REPORT).html()


def test_a_row_that_failed_stands_out():
    made = Page("rows")
    made.table(("id", "ours"), [("X1", "1 s"), ("X2", "failed: no XDP")], [False, True])
    assert '<tr class="failed"><td>X2</td>' in made.html()


def test_a_page_that_cannot_be_written_names_the_file():
    with pytest.raises(SupportError, match=r"/proc/none/a.html cannot be written \(.*\); give another file to --html"):
        Page("a").write(Path("/proc/none/a.html"))


def test_a_paper_becomes_a_page(tmp_path: Path):
    file = tmp_path / "xagg.html"
    told = CliRunner().invoke(
        app,
        ["reproduce", "xagg", "--no-live", "--rows", "X2", "--html", str(file), "--figures", str(tmp_path), "--json"],
    )
    assert told.exit_code == 0, told.output
    read = Reader(file.read_text(encoding="utf-8"))
    assert json.loads(told.stdout)["rows"][0]["ours"] in read.words
    assert "analytic: a closed form or a fluid" in read.words


def test_a_benchmark_becomes_a_page(tmp_path: Path):
    file = tmp_path / "coflows.html"
    options = ["--coflows", "6", "--units", "4", "--html", str(file), "--json"]
    told = CliRunner().invoke(app, ["bench", "coflows", *options])
    assert told.exit_code == 0, told.output
    words = Reader(file.read_text(encoding="utf-8")).words
    assert {one["name"] for one in json.loads(told.stdout)["results"]} <= set(words)
