"""Code blocks of the docs: commands have the options that pages give them, and Python runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path

import click
import pytest
from tests.docs.blocks import ROOT, Block, blocks, commands, pages
from typer.main import get_command

from wiresum.cli.main import app
from wiresum.deploy.daemon import find_binary

PYTHON = [block for page in pages() for block in blocks(page) if block.language == "python"]
TUTORIALS = sorted((ROOT / "docs/extend").glob("*.md"))
WAIT_S = 30
LIVE_S = 300
"""A bound; four ranks import PyTorch."""


def parse(command: click.Command, words: list[str], context: click.Context | None = None) -> None:
    """Parses a command line as the program would, and runs nothing."""
    made = command.make_context(command.name, list(words), parent=context, ignore_unknown_options=False)
    if isinstance(command, click.Group):
        _, below, rest = command.resolve_command(made, [*made.protected_args, *made.args])
        assert below is not None
        parse(below, rest, made)


@cache
def program() -> click.Command:
    return get_command(app)


WIRESUM = list(commands("wiresum"))


@pytest.mark.parametrize(("place", "words"), WIRESUM, ids=[f"{place} {' '.join(words)}" for place, words in WIRESUM])
def test_commands_of_pages_are_those_of_the_program(place: str, words: list[str]):
    try:
        parse(program(), words)
    except click.exceptions.Exit:
        pass  # --help, --version
    except click.UsageError as wrong:
        pytest.fail(f"{place}: wiresum {' '.join(words)}: {wrong.format_message()}")


def test_options_of_the_daemon_are_those_of_the_program():
    told = subprocess.run([find_binary(), "--help"], capture_output=True, text=True, timeout=WAIT_S, check=True).stdout
    known = set(re.findall(r"--[a-z-]+", told))
    used = {(place, word) for place, words in commands("wiresum-node") for word in words if word.startswith("--")}
    assert used
    assert {(place, word) for place, word in used if word not in known} == set()


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.place)
def test_python_of_pages_compiles(block: Block):
    compile(textwrap.dedent(block.text), block.place, "exec")


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_tutorials_run_from_top_to_bottom(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    code = [block for block in blocks(page) if block.language in {"python", "rust"}]
    assert code
    for block in (one for one in code if one.language == "python"):
        exec(compile(block.text, block.place, "exec"), names)


def test_rust_of_tutorials_is_run_by_the_crate_that_it_is_about():
    """Rust's own tests of documentation take the page; here is seen that no page is left out."""
    told = {page for page in TUTORIALS if any(block.language == "rust" for block in blocks(page))}
    libraries = [path.read_text(encoding="utf-8") for path in (ROOT / "crates").glob("*/src/lib.rs")]
    assert told
    for page in told:
        line = f'#[doc = include_str!("../../../{page.relative_to(ROOT)}")]'
        assert sum(line in library for library in libraries) == 1, page


START = ROOT / "docs/start.md"


def test_planning_of_the_first_page_runs_as_it_stands(tmp_path: Path):
    planning = next(block for block in blocks(START) if "wiresum plan topology.json" in block.text)
    shell(planning.text, tmp_path)
    shell("wiresum keys plan.json --node 0 -o node-0.secret", tmp_path)
    assert {"topology.json", "plan.json", "plan.json.secret", "node-0.secret"} <= {
        path.name for path in tmp_path.iterdir()
    }


@pytest.mark.soak
@pytest.mark.needs("namespaces")
def test_the_first_sum_prints_what_the_page_says(tmp_path: Path):
    code = next(block for block in blocks(START) if "hello" not in block.text and "all_reduce" in block.text)
    (tmp_path / "hello.py").write_text(code.text, encoding="utf-8")
    run = next(block for block in blocks(START) if "testbed run" in block.text)
    said = shell(run.text, tmp_path)
    assert said.count("has 10.0") == 4
    assert "summed in the network: 1 of 1 collectives, 4 MB" in said


def shell(text: str, folder: Path) -> str:
    """Runs a block as it stands, with the commands of this environment; what it said."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=folder, env={**os.environ, "PATH": path},
        capture_output=True, text=True, timeout=LIVE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
