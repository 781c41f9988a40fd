"""Styles on standard error: in a terminal that has them, and nowhere else."""

from __future__ import annotations

import sys

import pytest

from wiresum.commandline.console import DIM, fail, note, styled


def test_what_is_no_terminal_gets_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    note("[7] is said")
    assert fail("no way", 3) == 3
    assert capsys.readouterr().err == "[7] is said\nerror: no way\n"


@pytest.mark.parametrize(
    ("environment", "is_styled"),
    [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"TERM": "xterm", "NO_COLOR": "1"}, False)],
)
def test_a_terminal_gets_styles_where_it_wants_them(
    environment: dict[str, str], is_styled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (styled("said", DIM) == "\x1b[2msaid\x1b[0m") is is_styled
