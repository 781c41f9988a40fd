"""Files that are too large, too deep, devices, or cannot be written: one screen of error, exit code 2, no traceback."""

import importlib
import json
import os
import pkgutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.forks import wiresum
from tests.hostile import limits, mutations

import wiresum as package
from wiresum.document import Document, FileDocument
from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan, secret_beside

LINES = 24
"""Lines of a screen."""
LIMIT_S = 60.0
"""Limit of a command on a busy machine."""
COMMANDS = {
    "plan": ["explain"],
    "topology": ["plan"],
    "schedule": ["schedule"],
    "workload": ["schedule", "optical:units=8", "--jobs"],
}
"""By the kind of document that they read."""


def _fails(*arguments: str, word: str, file_bytes: int | None = None) -> None:
    done = limits.run([sys.executable, "-m", "wiresum", *arguments], LIMIT_S, file_bytes)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert word in done.stderr, done.stderr
    assert len(done.stderr) < 80 * LINES, done.stderr


@pytest.mark.parametrize("command", [["explain"], ["plan"]])
def test_a_device_is_no_plan(command: list[str]) -> None:
    _fails(*command, "/dev/zero", word="not a regular file")


def test_a_scenario_may_be_nested_too_deeply(tmp_path: Path) -> None:
    deep = tmp_path / "deep.toml"
    deep.write_text("x = " + "[" * 100_000 + "]" * 100_000)
    _fails("simulate", str(deep), word="nested")


def test_a_path_with_a_zero_is_no_file() -> None:
    with pytest.raises(PlanError, match="check the path"):
        AggregationPlan.read("plan\0.json")


def test_a_document_may_be_nested_too_deeply(tmp_path: Path) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000 + "]" * 100_000)
    _fails("explain", str(deep), word="not valid JSON")


@pytest.mark.parametrize(
    "spec", ["leaf-spine:leaves=100000,spines=1000", "racks:worker-racks=1000000", "optical:units=1000000"]
)
def test_a_network_may_be_too_large(spec: str) -> None:
    _fails("plan", spec, word="make it smaller")


def test_a_topology_of_a_million_workers_is_refused(tmp_path: Path) -> None:
    nodes = [{"name": f"w{number}", "kind": "worker"} for number in range(1_000_000)]
    large = tmp_path / "large.json"
    large.write_text(json.dumps({"format": "wiresum-topology/1", "name": "large", "nodes": nodes, "links": []}))
    _fails("plan", str(large), word="nodes")


def test_what_is_wrong_is_quoted_in_part(tmp_path: Path) -> None:
    long = tmp_path / "long.json"
    unknown = {"x" * 100_000: 1, "format": "wiresum-topology/1", "name": "x" * 100_000, "nodes": [], "links": []}
    long.write_text(json.dumps(unknown))
    _fails("plan", str(long), word="xxx")


def test_a_full_disk_is_an_error_and_leaves_what_was_there() -> None:
    _fails("plan", "star:workers=2", "-o", "/dev/full", word="cannot be written")


def test_a_disk_that_fills_up_leaves_the_old_plan_and_no_draft(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text("what was there")
    _fails("plan", "star:workers=2", "-o", str(plan), word="cannot be written", file_bytes=100)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("plan.json", "what was there")]


def test_a_timetable_and_a_recording_may_not_fit_the_disk(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "docs/examples"
    network, jobs = "optical:units=8", str(example / "circuits-jobs.json")
    timetable = str(tmp_path / "timetable.json")
    _fails("schedule", network, "--jobs", jobs, "-o", timetable, word="cannot be written", file_bytes=100)
    records = str(tmp_path / "none" / "records.jsonl")
    _fails("simulate", str(example / "star.toml"), "--jsonl", records, word="records.jsonl")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [["schedule"], ["circuits", "run"]])
def test_a_schedule_may_be_nested_too_deeply(tmp_path: Path, command: list[str]) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000 + "]" * 100_000)
    network = ["--topology", "optical:units=4"] if command[-1] == "run" else []
    _fails(*command, str(deep), *network, word="not valid JSON")


def test_a_secret_may_be_a_device(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    command = [sys.executable, "-m", "wiresum", "plan", "star:workers=2", "-o", str(plan)]
    subprocess.run(command, check=True, timeout=LIMIT_S)
    _fails("keys", str(plan), "--node", "0", "--secret", "/dev/zero", word="not a regular file")


@pytest.mark.parametrize("kind", mutations.READERS)
def test_mutated_documents_are_read_or_refused(kind: str) -> None:
    _reads(kind, seed=1, count=500)


@pytest.mark.parametrize("kind", mutations.READERS)
def test_extreme_numbers_are_read_or_refused(kind: str) -> None:
    _reads(kind, seed=1, count=0)


HUGE = {
    "simulate": (
        'format = "wiresum-scenario/1"\ntopology = "leaf-spine:leaves=2,spines=1,hosts_per_leaf=5,programmable=1"\n'
        'fidelity = "trains"\n[[job]]\nbytes = 8_000_000\n'
        '[job.program]\npolicy = "hash"\nserver = "ps"\nslots = 512\ntimeout_s = 1e308\n',
        "huge:10: job[0].program.timeout_s: input should be less than or equal to 1000000, not 1e+308",
    ),
    "workload show": (
        json.dumps({"format": "wiresum-workload/1", "name": "huge", "jobs": [
            {"name": "j1", "workers": {"u0": 2}, "bytes": 10**400}
        ]}),
        "jobs[0].bytes: input should be less than or equal to 9007199254740992, not 1000",
    ),
}  # fmt: skip
"""By the command that reads it."""


@pytest.mark.parametrize("command", HUGE)
def test_a_number_that_is_too_large_is_named_with_its_bound(command: str, tmp_path: Path) -> None:
    text, words = HUGE[command]
    (tmp_path / "huge").write_text(text)
    done = wiresum(*command.split(), str(tmp_path / "huge"))
    assert done.returncode == 2
    assert words in done.stderr


def test_every_number_of_a_document_has_bounds() -> None:
    """Without one, 10⁴⁰⁰ is read, and ends in an `OverflowError` wherever it is first counted with."""
    packages = ("adjust", "plan", "planners", "predict", "schedule", "sim", "sparse", "topology", "turns", "workload")
    for module in pkgutil.walk_packages(package.__path__, "wiresum."):
        if module.name.split(".")[1] in packages:
            importlib.import_module(module.name)
    found = [
        f"{one.__name__}.{name}"
        for one in _documents(Document)
        for name, field in one.model_json_schema().get("properties", {}).items()
        if any("maximum" not in number and "exclusiveMaximum" not in number for number in _numbers(field))
    ]
    assert found == []


def _documents(of: type[Document]) -> Iterator[type[Document]]:
    for one in of.__subclasses__():
        if one is not FileDocument:
            yield one
        yield from _documents(one)


def _numbers(schema: Any) -> Iterator[dict[str, Any]]:
    """Schemas of the numbers that a field may have, in lists and objects too."""
    if isinstance(schema, list):
        for one in schema:
            yield from _numbers(one)
    if not isinstance(schema, dict):
        return
    if schema.get("type") in {"integer", "number"} and not {"const", "enum"} & set(schema):
        yield schema
    for key in ("anyOf", "oneOf", "items", "prefixItems", "additionalProperties"):
        yield from _numbers(schema.get(key))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("kind", mutations.READERS)
def test_many_mutated_documents_are_read_or_refused(kind: str, seed: int) -> None:
    _reads(kind, seed, count=2000)


def _reads(kind: str, seed: int, count: int) -> None:
    command = [sys.executable, "-m", "tests.hostile.mutations", kind, str(seed), str(count)]
    done = limits.run(command, LIMIT_S * 10)
    assert done.returncode == 0, f"replay: {' '.join(command)}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("kind", COMMANDS)
def test_commands_answer_mutated_documents_on_a_screen(kind: str, tmp_path: Path) -> None:
    """What is read may still be impossible to honour: then a command says so as it does where a file cannot be read."""
    file = tmp_path / "mutant"
    for number, text in enumerate(mutations.mutants(kind, 1, 4)):
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        done = limits.run([sys.executable, "-m", "wiresum", *COMMANDS[kind], str(file)], LIMIT_S)
        assert done.returncode in {0, 2, 4}, f"{kind} #{number}: {done}"
        assert "Traceback" not in done.stderr
        assert done.returncode == 0 or len(done.stderr) < 80 * LINES, done.stderr


def test_a_plan_is_replaced_in_one_step_and_its_secret_is_its_owners(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text("what was there")
    secret = secret_beside(plan)
    secret.write_text("open")
    secret.chmod(0o644)
    command = [sys.executable, "-m", "wiresum", "plan", "star:workers=2", "-o", str(plan)]
    mask = os.umask(0)
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S)
    finally:
        os.umask(mask)
    assert json.loads(plan.read_text())["job"]
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([plan.name, secret.name])
