"""Help is there at once, as no command loads what only its work needs; and each line of it stands alone."""

import json
import subprocess
import sys

import pytest
from typer.main import get_command

from wiresum.cli.main import SUMMARIES, app
from wiresum.reproduce import PAPERS

WAIT_S = 60
HEAVY = {"numpy", "pydantic", "torch", "rich", "highspy", "scipy", "matplotlib", "multiprocessing", "wiresum._native"}
"""Each takes about as long to import as everything else together, or longer."""
WALK = """
import contextlib, io, json, sys
from typer.main import get_command
from wiresum.cli.main import app

def walk(command, path):
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
        command.main([*path, "--help"], prog_name="wiresum")
    yield " ".join(path), len(shown.getvalue()), sorted(set(HEAVY) & set(sys.modules))

def paths(command, path=()):
    yield path
    for name in getattr(command, "list_commands", lambda _: [])(None):
        yield from paths(command.get_command(None, name), (*path, name))

HEAVY = json.loads(sys.argv[1])
root = get_command(app)
print(json.dumps([found for path in paths(root) for found in walk(root, path)]))
"""


def test_no_help_loads_what_takes_long():
    command = [sys.executable, "-c", WALK, json.dumps(sorted(HEAVY))]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=True).stdout)
    commands = {name for name, _, _ in found}
    assert {
        "",
        "plan",
        "bench",
        "bench kills",
        "topology star",
        "testbed run",
        "sparse trace",
        "node add",
        "doctor",
    } <= commands
    assert [name for name, length, _ in found if not length] == []
    assert {name: loaded for name, _, loaded in found if loaded} == {}


LOADED = """
import contextlib, sys
from wiresum.cli import main
with contextlib.suppress(SystemExit):
    main()
print(*sys.modules, file=sys.stderr)
"""


def loaded(*arguments):
    """What a command prints, and the modules that it has loaded at its end."""
    command = [sys.executable, "-c", LOADED, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=True)
    return done.stdout, set(done.stderr.split())


@pytest.mark.parametrize(
    "command", [["version"], ["reproduce", "--list"], ["reproduce", "--list", "--json"]], ids=" ".join
)
def test_a_command_that_computes_nothing_loads_no_more(command):
    printed, modules = loaded(*command)
    assert printed
    assert HEAVY.isdisjoint(modules)


def test_a_plan_that_nobody_compares_loads_no_arrays_and_no_styles():
    printed, modules = loaded("plan", "star", "--planner", "direct")
    assert "wiresum-plan" in printed
    assert {"numpy", "rich", "torch"}.isdisjoint(modules)


@pytest.mark.parametrize("paper", PAPERS)
def test_rows_of_a_paper_are_listed_without_pytorch(paper):
    printed, modules = loaded("reproduce", paper, "--list")
    assert "minutes" in printed
    assert "torch" not in modules


def test_the_list_of_commands_says_what_each_says_of_itself():
    root = get_command(app)
    assert list(SUMMARIES) == root.list_commands(None)
    assert {name: root.get_command(None, name).help.partition("\n")[0] for name in SUMMARIES} == SUMMARIES


def test_the_list_of_commands_imports_none_of_them():
    check = """
import contextlib, sys
from wiresum.cli.main import app
with contextlib.suppress(SystemExit):
    app(["--help"])
print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert "Place a job on a topology" in done.stdout
    assert {name for name in done.stderr.split() if name.startswith("wiresum.cli.")} == {"wiresum.cli.main"}


@pytest.mark.parametrize(("typed", "meant"), [("plam", "plan"), ("bench alreduce", "allreduce")])
def test_a_mistyped_command_gets_the_nearest_name(typed, meant):
    command = [sys.executable, "-m", "wiresum", *typed.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 2
    assert f"Did you mean '{meant}'" in done.stderr


FRAGMENTS = ("Of ", "That ", "Whose ", "Its ", "With ", "Only ", "At ", "By ", "Who ", "How ")
"""Words that begin a help text which cannot stand alone."""


def options(command, path=""):
    for parameter in command.params:
        yield f"{path} {parameter.opts[0]}", parameter.help or ""
    for name in getattr(command, "list_commands", lambda _: [])(None):
        yield from options(command.get_command(None, name), f"{path} {name}")


def test_each_line_of_help_stands_alone():
    told = dict(options(get_command(app)))
    assert {option: text for option, text in told.items() if text.startswith(FRAGMENTS)} == {}


@pytest.mark.parametrize("command", ["bench isolation", "bench coexistence", "bench aggregator"])
def test_engines_that_are_typed_are_checked(command):
    done = subprocess.run(
        [sys.executable, "-c", "from wiresum.cli import main; main()", *command.split(), "--engines", "abacus"],
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "abacus is not one of xdp" in " ".join(done.stderr.split())
