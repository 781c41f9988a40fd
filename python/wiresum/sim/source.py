"""Scenario files: TOML, and errors that name the line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from wiresum import formats
from wiresum.document import Location, describe, read_text
from wiresum.errors import ScenarioError
from wiresum.sim.scenario import Scenario

HEADER = re.compile(r"^\s*(?P<open>\[\[?)\s*(?P<path>[^\[\]]+?)\s*\]\]?\s*(#.*)?$")
KEY = re.compile(r"^\s*(?P<path>[A-Za-z0-9_.\"-]+)\s*=")


@dataclass(frozen=True)
class ScenarioFile:
    """A scenario and where it is written.

    Attributes:
        scenario: what it says.
        path: of the file; plans and topologies are looked for beside it.
        text: the file.
    """

    scenario: Scenario
    path: Path
    text: str

    @classmethod
    def read(cls, path: Path | str, changes: Mapping[str, Any] | None = None) -> ScenarioFile:
        """Reads a file.

        Args:
            path: of the file.
            changes: other values for some fields, by place as `job.0.compute.deviation_s`; `*` is every index.

        Raises:
            ScenarioError: names the line of each bad field.
        """
        path = Path(path)
        text = read_text(path, "scenario", ScenarioError)
        if not text.strip():
            raise ScenarioError(f"scenario {path}: {_mistaken(text)}")
        try:
            content = tomllib.loads(text)
        except ValueError as bad:  # numbers of thousands of digits have one of their own
            raise ScenarioError(
                f"scenario {path}: {_mistaken(text) or f'not valid TOML ({bad}); mend that line'}"
            ) from None
        except RecursionError:
            raise ScenarioError(f"scenario {path}: its lists or tables are nested too deeply; flatten them") from None
        changed = deepcopy(content)
        for place, value in (changes or {}).items():
            _set(changed, place.split("."), value, place)
        lines = lines_of(text)
        try:
            return cls(Scenario.model_validate(changed), path, text)
        except ValidationError as invalid:
            raise ScenarioError(describe(invalid, lambda location: _place(path, lines, location))) from None

    def error(self, location: Location, problem: str) -> ScenarioError:
        """An error at a field."""
        return ScenarioError(_place(self.path, lines_of(self.text), location) + problem)


def _mistaken(text: str) -> str:
    """Why a text is no scenario, where it is another file; nothing where it is none."""
    is_json = text.lstrip().startswith("{")
    return formats.mistaken(text, Scenario.wanted()) or (
        "is JSON, and scenarios are TOML; check the path" if is_json else ""
    )


def lines_of(text: str) -> dict[Location, int]:
    """The line, from 1, of each table and key of a TOML file; inline tables are one with their key."""
    lines: dict[Location, int] = {}
    counts: dict[Location, int] = {}
    table: Location = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := HEADER.match(line):
            table = _names(header["path"])
            if header["open"] == "[[":
                counts[table] = counts.get(table, -1) + 1
            for length in range(len(table), 0, -1):
                if table[:length] in counts:
                    table = (*table[:length], counts[table[:length]], *table[length:])
            lines.setdefault(table, number)
        elif key := KEY.match(line):
            lines.setdefault((*table, *_names(key["path"])), number)
    return lines


def _names(path: str) -> Location:
    return tuple(part.strip().strip('"') for part in path.split("."))


def _place(path: Path, lines: Mapping[Location, int], location: Location) -> str:
    """`file:line: ` of a field, or of the smallest table around it."""
    for length in range(len(location), 0, -1):
        if location[:length] in lines:
            return f"{path}:{lines[location[:length]]}: "
    return f"{path}: "


def _set(content: Any, path: list[str], value: Any, place: str) -> None:
    """Sets a field in place."""
    first, *rest = path
    if isinstance(content, list):
        for index in range(len(content)) if first == "*" else [_index(first, content, place)]:
            if rest:
                _set(content[index], rest, value, place)
            else:
                content[index] = value
    elif isinstance(content, dict):
        if rest:
            _set(content.setdefault(first, {}), rest, value, place)
        else:
            content[first] = value
    else:
        raise ScenarioError(
            f"there is no field {place} in the scenario: {first} would be inside a plain value; "
            "docs/simulator.md has the fields"
        )


def _index(text: str, content: list[Any], place: str) -> int:
    if not text.isdecimal() or int(text) >= len(content):
        raise ScenarioError(f"{place}: {text} is not an index; give 0 to {len(content) - 1}, or * for all")
    return int(text)
