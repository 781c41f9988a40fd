"""`wiresum compare SCENARIO`: flows, packets and processes side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from wiresum.bench.scenario.agreement import BYTES, FIGURES, PACKETS, SECONDS, TOLERANCES, Difference, differences
from wiresum.bench.scenario.answers import FLOWS, LIVE, Answer
from wiresum.bench.scenario.answers import compare as ask
from wiresum.cli.simulate import load, parse_changes
from wiresum.commandline.console import note, out, print_json
from wiresum.commandline.options import EngineChoice, choose_engine
from wiresum.commandline.progress import working
from wiresum.commandline.tables import comparison, print_wide
from wiresum.sim import ScenarioFile

COLUMNS = ("answer", "rounds", "median", "least", "most", "to flows", "on links", "to flows ", "busiest link")
"""Seconds of a round, and their difference to those of flows; MB over all links, and likewise."""
ALL_COLUMNS = ("scenario", "flows", "packets", "", "live s", " ", "flows ", "packets ", "  ", "live MB", "   ")
"""Median seconds of a round, then MB over all links, each with its difference to the answer before it."""
NARROWEST = 110
"""Columns of the table where standard output is no terminal, or a narrow one."""


def compare_answers(path: Path, change: Sequence[str], *, live: bool, engine: EngineChoice, as_json: bool) -> None:
    """Has flows, packets and a live run answer a scenario, or every scenario in a folder, and shows the answers.

    Raises:
        typer.BadParameter: there is no scenario in the folder.
        typer.Exit: in a folder, answers differ by more than the stated tolerance.
    """
    if path.is_dir():
        _compare_all(path, change, live=live, engine=engine, as_json=as_json)
        return
    with working("flows, packets and processes"):
        answers = _ask(path, change, live=live, engine=engine)
    if as_json:
        print_json([answer.to_json() for answer in answers])
        return
    print_wide(_table(answers), NARROWEST)
    for answer in answers:
        if answer.refusal:
            out().print(f"{answer.name}: skipped: {answer.refusal}", markup=False)
        for line in answer.notes:
            note(line)


def _ask(path: Path, change: Sequence[str], *, live: bool, engine: EngineChoice) -> list[Answer]:
    changes = parse_changes(change)

    def read(more: dict[str, Any]) -> ScenarioFile:
        return ScenarioFile.read(path, {**changes, **more})

    return ask(read({}), read, load, choose_engine(engine, loopback=False) if live else "udp", live)


def _compare_all(folder: Path, change: Sequence[str], *, live: bool, engine: EngineChoice, as_json: bool) -> None:
    files = sorted(folder.glob("*.toml"))
    if not files:
        raise typer.BadParameter(f"{folder} has no scenario; give a folder with files *.toml")
    asked: dict[str, list[Answer]] = {}
    for file in files:
        with working(f"{file.stem}: flows, packets and processes"):
            asked[file.stem] = _ask(file, change, live=live, engine=engine)
    found = {name: differences(answers) for name, answers in asked.items()}
    if as_json:
        print_json([
            {
                "scenario": name,
                "answers": [answer.to_json() for answer in answers],
                "differences": [difference.to_json() for difference in found[name]],
            }
            for name, answers in asked.items()
        ])  # fmt: skip
    else:
        _show_all(asked, found)
    if any(not difference.is_within for one in found.values() for difference in one):
        raise typer.Exit(1)


def _show_all(asked: Mapping[str, Sequence[Answer]], found: Mapping[str, Sequence[Difference]]) -> None:
    table = comparison(ALL_COLUMNS, ("scenario",))
    for name, answers in asked.items():
        table.add_row(name, *_compared(answers, found[name]))
    print_wide(table, NARROWEST)
    for name, answers in asked.items():
        for answer in answers:
            if answer.refusal:
                out().print(f"{name}, {answer.name}: skipped: {answer.refusal}", markup=False)
    for known in TOLERANCES:
        span = f"{known.least:+.0%} to {known.most:+.0%}"
        note(f"{known.of}, {known.answer} to {known.against}: {span}; what is not, has a !")


def _compared(answers: Sequence[Answer], found: Sequence[Difference]) -> list[str]:
    """Seconds and bytes of one scenario's answers, and their differences."""
    given = [None if answer.refusal else answer for answer in answers] + [None] * (3 - len(answers))
    by_place = {(one.tolerance.of, one.tolerance.answer): one for one in found}
    cells = []
    for of, unit in ((SECONDS, 1.0), (BYTES, 1e6)):
        for answer, kind in zip(given, (FLOWS, PACKETS, LIVE), strict=True):
            cells.append("–" if answer is None else f"{FIGURES[of](answer) / unit:.3f}")
            if kind != FLOWS:
                cells.append(_share(by_place.get((of, kind))))
    return cells


def _share(difference: Difference | None) -> str:
    if difference is None:
        return "–"
    return f"{100 * difference.share:+.1f} %{'' if difference.is_within else ' !'}"


def _table(answers: Sequence[Answer]) -> Table:
    table = comparison(COLUMNS, ("answer", "busiest link"))
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
