"""Documents that are nearly right: changes at random to files of every kind, for readers to refuse.

`python -m tests.hostile.mutations KIND SEED COUNT` reads so many of one kind, and prints each that a reader has not
answered as it should: with a document, or with an error of the project.
"""

from __future__ import annotations

import copy
import json
import random
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wiresum.errors import WiresumError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.explanation import explain as in_words
from wiresum.plan.schedule import Schedule
from wiresum.plan.tables import Tables
from wiresum.schedule.model import Timetable
from wiresum.sim.resolve import resolve
from wiresum.sim.source import ScenarioFile
from wiresum.topology.generators import TOPOLOGIES
from wiresum.topology.model import Topology
from wiresum.workload.model import Workload
from wiresum.workload.sites import units_of
from wiresum.workload.summary import describe, summarize

ROOT = Path(__file__).parents[2]
MOST_CHANGES = 3
"""To one document: more would be refused for the first."""
DEPTH = 100_000
"""Levels of lists in lists; Python's parsers go down a few hundred."""
LONG = "x" * 100_000
WRONG: list[Any] = [
    None, True, False, 0, 1, -1, 2, 255, 256, 65_535, 65_536, 2**31, 2**32, 2**53 + 1, 2**63, 2**64, -(2**63), 10**400,
    0.5, -0.5, 1e-320, 1e300, -1e300, 1e308, 1e9, "", "0", "\x00", "\ud800", "../../etc/passwd", "/dev/zero",
    "0.0.0.0:0", "[::]:1", LONG, [], {}, [[]], [None] * 1000, {"x": {}}, {LONG: 1},
]  # fmt: skip
"""What a field may be instead."""
EXTREMES = [0, -1, 2**31, 2**32, 2**53, 2**63, 2**64, 10**400, 1e-320, 1e6, 1e9, 1e18, 1e30, 1e300, 1e308, -1e308]
"""Numbers that a field may have instead of its own."""
MOST_FIELDS = 60
"""Fields of a document that get each of them."""
NOISE = ["[", "]", "{", "}", '"', ",", ":", "=", "\\", "\n", "\x00", "9" * 5000, "1e999", "NaN", "-Infinity", "é"]
"""What a text may have anywhere."""

Reader = Callable[[str], object]


NUMBERS: dict[str, list[dict[str, Any]]] = {
    "scenario": [
        {
            "format": "wiresum-scenario/1",
            "topology": "leaf-spine:leaves=2,spines=1,hosts_per_leaf=3,programmable=1",
            "fidelity": fidelity,
            "patience_s": 10.0,
            "links": {"queue_bytes": 100_000, "ecn_bytes": 50_000, "jitter_s": 0.0, "loss": 0.0},
            "job": [
                {
                    "name": "model",
                    "bytes": 4000,
                    "rounds": 1,
                    "window": 8,
                    "start": {"kind": "uniform", "least_s": 0.0, "most_s": 0.1},
                    "compute": {"kind": "lognormal", "median_s": 0.1, "sigma": 0.1},
                    **more,
                }
            ],
            "background": [{"source": "w0", "target": "w1", "rate_bps": 1e6, "from_s": 0.0, "until_s": 0.01}],
            "failure": [{"link": "L1-S1", "at_s": 5.0, "until_s": 6.0}],
        }
        for fidelity, more in (
            ("trains", {"program": {"policy": "hash", "server": "ps", "slots": 64, "timeout_s": 0.01}}),
            ("packets", {}),
            ("flows", {}),
        )
    ]
}
"""Documents with more numbers than the examples have."""


def plan(text: str) -> object:
    """Reads a plan, and what is asked of every plan."""
    read = AggregationPlan.parse(text)
    words = in_words(read)
    return AggregationPlan.parse(read.to_json()), read.digest(), read.derived() if read.fabric else None, words


def topology(text: str) -> object:
    """Reads a topology, writes it again, and places units and jobs in it."""
    read = Topology.parse(text)
    return Topology.parse(read.to_json()), units_of(read)


def scenario(text: str) -> object:
    """Read a scenario, and find what it names."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scenario.toml"
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        return resolve(ScenarioFile.read(file), _topology_of)


def workload(text: str) -> object:
    """Reads jobs, and says what is in them."""
    read = Workload.parse(text)
    return describe(read), summarize(read.as_batch())


def _topology_of(name: str) -> Topology:
    """Generators with what they are told by default: sizes in their names have tests of their own."""
    known = name.partition(":")[0]
    return TOPOLOGIES[known]() if known in TOPOLOGIES else Topology.read(name)


READERS: dict[str, Reader] = {
    "plan": plan,
    "topology": topology,
    "scenario": scenario,
    "schedule": Schedule.parse,
    "timetable": Timetable.parse,
    "tables": Tables.parse,
    "workload": workload,
}
"""By the kind of document."""


def originals(kind: str) -> list[str]:
    """Documents of a kind that are right."""
    files = {
        "plan": [
            "spec/example-plan.json",
            "crates/protocol/tests/plans/tree.json",
            "crates/plan/tests/plans/version1.json",
        ],
        "scenario": ["docs/examples/star.toml", "docs/examples/testbeds/rack.toml", "docs/examples/testbeds/goat.toml"],
        "schedule": ["spec/example-plan.json"],
        "workload": ["docs/examples/circuits-jobs.json"],
    }  # fmt: skip
    texts = [(ROOT / file).read_text() for file in files.get(kind, [])]
    match kind:
        case "plan" | "schedule":
            texts.append(_plan_of_switches().to_json())
        case "topology":
            texts.extend(TOPOLOGIES[name]().to_json() for name in ("star", "racks", "leaf-spine", "optical"))
        case "timetable":
            texts.append(_timetable())
        case "tables":
            tables = [{"name": "users", "rows": 100, "dimension": 8, "features": ["user"]}]
            texts.append(json.dumps({"format": "wiresum-tables/1", "tables": tables}))
    return texts


def _plan_of_switches() -> AggregationPlan:
    from wiresum.plan.job import Job
    from wiresum.planners import plan as make

    return make(TOPOLOGIES["racks"](), Job(), planner="ps")


def _timetable() -> str:
    from wiresum.bench.schedule.instances import Case, instance
    from wiresum.schedule import schedule

    made = schedule(instance(Case(units=4, jobs=3, ports=2, places=1), 1), "turns", seed=1)
    return made.model_dump_json(exclude_none=True)


def mutants(kind: str, seed: int, count: int) -> Iterator[str]:
    """Documents of a kind with a few changes each: half of them to the text, half to fields."""
    drawn, texts = random.Random(f"{kind} {seed}"), originals(kind)
    load = tomllib.loads if kind == "scenario" else json.loads
    for _ in range(count):
        text = drawn.choice(texts)
        if drawn.random() < 0.5:
            yield _noisy(drawn, text)
            continue
        document = load(text)
        for _ in range(min(drawn.randint(1, MOST_CHANGES) for _ in range(2))):
            _change(drawn, document)
        yield _toml(document) if kind == "scenario" else json.dumps(document)


def _noisy(drawn: random.Random, text: str) -> str:
    for _ in range(min(drawn.randint(1, MOST_CHANGES) for _ in range(2))):
        at = drawn.randrange(len(text) + 1)
        match drawn.randrange(4):
            case 0:
                text = text[:at]
            case 1:
                text = text[:at] + drawn.choice(NOISE) + text[at:]
            case 2:
                text = text[:at] + text[at + drawn.randrange(40) :]
            case 3:
                text = text[:at] + text[at:].replace(*drawn.choice([("1", "-1"), ("0", "9e9"), ('"', "'")]), 1)
    return text


def _change(drawn: random.Random, document: Any) -> None:
    """Changes a field of a document in place, or adds one, or takes one away."""
    if not document:
        return
    holder, key = drawn.choice(list(_places(document)))
    match drawn.randrange(6):
        case 0 if isinstance(holder, dict):
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[drawn.choice(["x", "", "format", LONG])] = copy.deepcopy(drawn.choice(WRONG))
        case 2 if isinstance(holder, list):
            holder.extend(copy.deepcopy(holder[key]) for _ in range(drawn.choice([1, 1, 100])))
        case 3 if isinstance(holder, list):
            del holder[key]
        case 4:
            other, place = drawn.choice(list(_places(document)))
            holder[key] = copy.deepcopy(other[place])
        case _:
            holder[key] = copy.deepcopy(drawn.choice(WRONG))


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Each field of a document, as what holds it and its key."""
    for key in document if isinstance(document, dict) else range(len(document)):
        yield document, key
        if isinstance(document[key], dict | list):
            yield from _places(document[key])


def _toml(document: dict[str, Any]) -> str:
    """A table as TOML, all values inline; what TOML has no word for is left as JSON has it."""
    return "".join(f"{json.dumps(key)} = {_inline(value)}\n" for key, value in document.items())


def _inline(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)} = {_inline(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)


def extremes(kind: str, seed: int) -> Iterator[str]:
    """Documents of a kind with one number each that is as large, as small or as wrong as a file can have it."""
    drawn, load = random.Random(f"{kind} {seed}"), tomllib.loads if kind == "scenario" else json.loads
    for text in [*originals(kind), *map(_toml, NUMBERS.get(kind, []))]:
        document = load(text)
        fields = [(holder, key) for holder, key in _places(document) if type(holder[key]) in {int, float}]
        for holder, key in drawn.sample(fields, min(len(fields), MOST_FIELDS)):
            before = holder[key]
            for number in EXTREMES:
                holder[key] = number
                yield _toml(document) if kind == "scenario" else json.dumps(document)
            holder[key] = before


def wrongs(kind: str, seed: int, count: int) -> Iterator[str]:
    """Yield each document that a reader treats wrongly, with the complaint.

    Args:
        kind: of the documents.
        seed: of the changes.
        count: of the mutants; 0 for documents with extreme numbers.
    """
    texts = mutants(kind, seed, count) if count else extremes(kind, seed)
    for number, text in enumerate(texts):
        try:
            READERS[kind](text)
        except WiresumError:
            pass
        except BaseException as wrong:  # a panic of Rust is no Exception
            if isinstance(wrong, KeyboardInterrupt):
                raise
            yield f"{kind} {seed} #{number}: {traceback.format_exc(limit=-3)[:1000]}\n{text[:300]}"


if __name__ == "__main__":
    found = list(wrongs(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
    print("\n".join(found[:5]))
    sys.exit(min(len(found), 1))
