"""Shells complete commands, options and names, without a wait."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.test_help import HEAVY

from wiresum.bench import BENCHMARKS
from wiresum.commandline.completion import name, names
from wiresum.deploy.daemon import find_binary
from wiresum.planners import PLANNERS
from wiresum.reproduce import PAPERS
from wiresum.topology.generators import TOPOLOGIES

ROOT = Path(__file__).parents[2]
WAIT_S = 60
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def in_bash(line: str, script: str, function: str) -> set[str]:
    """What bash offers for the last word of a line, by a script that defines the function."""
    ask = f"""
{script}
COMP_WORDS=({line}); [[ '{line}' == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}
{function} "${{COMP_WORDS[0]}}" "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    return set(told(["bash", "--norc", "-c", ask]).split())


def told(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=WAIT_S, check=True, cwd=ROOT,
        env={**os.environ, "PATH": PATH, **environment},
    )  # fmt: skip
    return done.stdout


@pytest.fixture(scope="module")
def script() -> str:
    return told(["wiresum", "--show-completion"], _WIRESUM_COMPLETE="source_bash")


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("wiresum pl", {"plan"}),
        ("wiresum bench al", {"allreduce"}),
        ("wiresum plan star --planner go", {one for one in PLANNERS if one.startswith("go")}),
        ("wiresum plan fat", {one for one in TOPOLOGIES if one.startswith("fat")}),
        ("wiresum plan star --policy ", {"pool", "cache"}),
        ("wiresum compare --planners ps,go", {f"ps,{one}" for one in PLANNERS if one.startswith("go")}),
        ("wiresum reproduce ", set(PAPERS)),
        ("wiresum simulate docs/examples/st", {"docs/examples/star.toml"}),
        ("wiresum bench ", set(BENCHMARKS)),
    ],
)
def test_bash_completes(line: str, offered: set[str], script: str):
    assert in_bash(line, script, "_wiresum_completion") == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_what_bash_gets(shell: str):
    asked = {"_WIRESUM_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "wiresum plan star --planner go"}
    words = told(["wiresum"], _TYPER_COMPLETE_FISH_ACTION="get-args", **asked)
    assert all(one in words for one in PLANNERS if one.startswith("go"))
    assert "ps" not in words


@pytest.mark.parametrize("line", ["wiresum ", "wiresum plan --", "wiresum bench allreduce --"])
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_loads_nothing_that_takes_long(line: str, shell: str):
    check = """
import sys
from wiresum.cli import main
try:
    main()
finally:
    print(*(name for name, module in sys.modules.items() if module), file=sys.stderr)
"""
    asked = {"_WIRESUM_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line, "COMP_WORDS": line}
    asked |= {"COMP_CWORD": str(line.count(" ")), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run(
        [sys.executable, "-c", check.replace("main()", "sys.argv = ['wiresum']; main()")],
        env={**os.environ, **asked}, capture_output=True, text=True, timeout=WAIT_S, check=True,
    )  # fmt: skip
    assert len(done.stdout.split()) > 5
    assert HEAVY.isdisjoint(done.stderr.split())


def test_a_shells_script_is_installed_in_the_home(tmp_path: Path):
    home = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": ""}
    ask = "wiresum --install-completion; :"  # a shell that is the command's parent
    assert "bash completion installed" in told(["bash", "--norc", "-c", ask], **home)
    installed = (tmp_path / ".bash_completions/wiresum.sh").read_text()
    assert in_bash("wiresum pl", installed, "_wiresum_completion") == {"plan"}


def test_files_are_offered_by_their_end_and_folders_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for file in ("star.json", "star.toml", ".hidden.json"):
        (tmp_path / file).touch()
    (tmp_path / "state").mkdir()
    complete = name(["star"], ".json")
    assert complete("st") == ["star", "star.json", "state/"]
    assert complete("none/") == []
    assert complete(f"{tmp_path}/star") == [f"{tmp_path}/star.json"]
    assert names(["a", "b"])("a,") == ["a,b"]


def test_the_daemons_script_offers_its_options():
    script = (ROOT / "packaging/debian/wiresum-node.completion").read_text()
    binary = find_binary()
    offered = in_bash(f"{binary} --en", script, "_wiresum_node")
    assert offered == {"--engine"}
