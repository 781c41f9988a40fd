"""`wiresum compare SCENARIO`: flows, packets and processes side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from wiresum.bench.answers import Answer
from wiresum.bench.answers import compare as ask
from wiresum.cli.console import err, note, out, print_json
from wiresum.cli.options import EngineChoice
from wiresum.cli.simulate import load, parse_changes
from wiresum.cli.testbed import choose_engine
from wiresum.sim import ScenarioFile

COLUMNS = ("answer", "rounds", "median", "least", "most", "to flows", "on links", "to flows ", "busiest link")
"""Seconds of a round, and their difference to those of flows; MB over all links, and likewise."""
NARROWEST = 100
"""Columns of the table where standard output is no terminal, or a narrow one."""


def compare_answers(scenario: Path, change: Sequence[str], *, live: bool, engine: EngineChoice, as_json: bool) -> None:
    """Asks all three, and shows what they say."""
    changes = parse_changes(change)

    def read(more: dict[str, Any]) -> ScenarioFile:
        return ScenarioFile.read(scenario, {**changes, **more})

    file = read({})
    with err.status("flows, packets and processes"):
        answers = ask(file, read, load, choose_engine(engine, loopback=False) if live else "udp", live)
    if as_json:
        print_json([answer.to_json() for answer in answers])
        return
    Console(highlight=False, width=max(out.width, NARROWEST)).print(_table(answers))
    for answer in answers:
        if answer.refusal:
            out.print(f"{answer.name}: skipped: {answer.refusal}", markup=False)
        for line in answer.notes:
            note(line)


def _table(answers: Sequence[Answer]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in COLUMNS:
        is_text = column in {"answer", "busiest link"}
        table.add_column(column, justify="left" if is_text else "right", no_wrap=True)
    given = [answer for answer in answers if not answer.refusal]
    for answer in given:
        (_, source, target), _bytes = answer.busiest()
        table.add_row(
            answer.name, str(len(answer.seconds)), f"{answer.median_s:.4f} s", f"{min(answer.seconds):.4f} s",
            f"{max(answer.seconds):.4f} s", _against(answer.median_s, given[0].median_s, given[0].name),
            f"{answer.total_bytes / 1e6:,.2f} MB", _against(answer.total_bytes, given[0].total_bytes, given[0].name),
            f"{source} → {target}",
        )  # fmt: skip
    return table


def _against(value: float, first: float, name: str) -> str:
    return f"{100 * (value / first - 1):+.1f} %" if name == "flows" and first else "–"
