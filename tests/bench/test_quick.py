"""`--quick` of every benchmark: options of its own command, and less work than without."""

from __future__ import annotations

import shlex

import pytest
from typer.main import get_command

from wiresum.bench import BENCHMARKS
from wiresum.cli.bench import app
from wiresum.commandline.quantities import parse_size

COUNTS = {
    "--batch", "--coflows", "--delay", "--kills", "--large-seeds", "--late", "--model-scale", "--ports", "--rounds",
    "--rows", "--runs", "--scale", "--seconds", "--seeds", "--steps", "--time-limit", "--units", "--upgrades",
    "--workers",
}  # fmt: skip
SIZES = {"--large", "--memory", "--size"}
LISTS = {"--against", "--deviations", "--engines", "--fidelities", "--loads", "--losses", "--model", "--policies",
         "--sizes", "--topologies", "--transports"}  # fmt: skip


def parsed(name, *arguments):
    """What the command of a benchmark would be given."""
    group = get_command(app)
    context = group.make_context("bench", [name, *arguments])
    _, command, rest = group.resolve_command(context, [name, *arguments])
    made = command.make_context(name, list(rest), parent=context)
    return {option.opts[0]: made.params[option.name] for option in command.params if option.name in made.params}


def less(option, quick, full):
    """Whether an option asks for less; None for one that says neither."""
    if isinstance(quick, bool):
        return quick < full
    if option in LISTS:
        return len(quick.split(",")) < len(full.split(",")) if "," in full else len(quick) < len(full)
    if option in SIZES:
        return parse_size(quick) < parse_size(full)
    if option in COUNTS and not isinstance(quick, str) and full is not None:
        return quick < full
    return None


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_quick_benchmark_has_less_to_do(name):
    quick, full = parsed(name, "--quick"), parsed(name)
    changed = {option for option in quick if quick[option] != full[option]}
    assert changed, "--quick changes something"
    judged = {option: less(option, quick[option], full[option]) for option in changed}
    assert any(judged.values()), judged


def test_options_beside_quick_still_count():
    assert parsed("allreduce", "--quick", "--workers", "3")["--workers"] == 3
    assert parsed("allreduce", "--workers", "3", "--quick")["--workers"] == 3
    assert parsed("allreduce", "--quick")["--workers"] == 2


@pytest.mark.parametrize("name", BENCHMARKS)
def test_what_quick_stands_for_is_in_the_help(name):
    command = get_command(app).get_command(None, name)
    assert f"--quick stands for `{BENCHMARKS[name].quick}`" in (command.epilog or "")
    assert shlex.split(BENCHMARKS[name].quick)
