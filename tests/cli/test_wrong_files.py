"""Files that are not what a command wants: one sentence that names the file, says what it is, and what to do."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.forks import wiresum

import wiresum as package
from wiresum import formats
from wiresum.document import FileDocument
from wiresum.plan.aggregation_plan import secret_beside

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
PLAN = Path(__file__).parents[2] / "spec/example-plan.json"
READERS = {
    "plan": ["explain FILE", "predict FILE -t star", "adjust FILE -t star", "keys FILE --node 0", "selftest FILE"],
    "topology": [
        "plan FILE",
        "topology lit FILE",
        "topology export FILE -f node-link",
        "testbed up FILE",
        "schedule FILE",
    ],
    "scenario": ["simulate FILE", "compare FILE"],
    "workload": ["workload show FILE", "schedule optical:units=4 --jobs FILE"],
    "schedule": ["circuits run FILE -t optical", "circuits apply FILE -t optical --driver polatis-rest://127.0.0.1:1"],
    "evaluation": ["plan star --planner xagg --evaluation FILE"],
    "tables": ["plan star:workers=2,servers=1 --planner tiers --tables FILE"],
    "hot-map": ["sparse layout FILE --registers 64 --pairs 8"],
    "hosts": [f"predict {PLAN} -t star --hosts FILE"],
}
"""Commands by the kind of file that they read."""
CASES = [(kind, command) for kind, commands in READERS.items() for command in commands]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of each kind that people have, and some that nobody wants."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "plan").write_text(PLAN.read_text())
    (folder / "scenario").write_text((EXAMPLES / "star.toml").read_text())
    (folder / "workload").write_text((EXAMPLES / "circuits-jobs.json").read_text())
    (folder / "topology").write_text(wiresum("topology", "star").stdout)
    (folder / "tables").write_text(wiresum("sparse", "tables", "lr").stdout)
    (folder / "empty").write_text("\n")
    (folder / "list").write_text("[1]")
    (folder / "latin").write_bytes(b"n\xe4me")
    (folder / "marked").write_bytes(b"\xef\xbb\xbf" + PLAN.read_bytes())
    (folder / "folder").mkdir()
    os.mkfifo(folder / "fifo")
    return folder


def said(command: str, file: Path) -> str:
    """What a command says of a file that it refuses."""
    done = wiresum(*(str(file) if word == "FILE" else word for word in command.split()))
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    words = " ".join(done.stderr.split())
    assert str(file) in words
    return words


@pytest.mark.parametrize(("wanted", "command"), CASES)
def test_a_file_of_another_kind_is_named_with_its_use(wanted: str, command: str, files: Path) -> None:
    json = "tables" if wanted == "workload" else "workload"
    for given in {json, "scenario"} - {wanted}:
        assert formats.KINDS[f"wiresum-{given}"] in said(command, files / given)


def test_a_plan_is_no_topology_and_the_other_way_round(files: Path) -> None:
    assert "a plan; `wiresum predict`" in said("plan FILE", files / "plan")
    assert "make a plan of it with `wiresum plan`" in said("predict FILE -t star", files / "topology")
    assert "a plan; `wiresum predict`" in said("simulate FILE", files / "plan")


@pytest.mark.parametrize("command", [command for _, command in CASES])
def test_an_empty_file_an_absent_one_and_a_fifo_are_said_once(command: str, files: Path) -> None:
    wrong = {"empty": "is empty; check the path", "absent": "no such file", "fifo": "is a fifo, not a regular file"}
    for name, words in wrong.items():
        told = said(command, files / name).lower()
        assert words in told
        assert told.count(str(files / name).lower()) == 1


@pytest.mark.parametrize("command", ["explain FILE", "predict FILE -t star", "simulate FILE"])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("latin", "is no text in UTF-8 (byte 0xe4 at position 1)"),
        ("folder", "cannot be read (is a directory, not a regular file); check the path"),
    ],
)
def test_what_is_no_text_is_said_once(command: str, name: str, words: str, files: Path) -> None:
    told = said(command, files / name)
    assert words in told
    assert told.count(str(files / name)) == 1


@pytest.mark.parametrize("command", ["explain FILE", "plan FILE", "schedule FILE", "circuits run FILE -t optical"])
def test_json_that_is_no_object_is_said_so(command: str, files: Path) -> None:
    assert "should be an object with fields, not [1]" in said(command, files / "list")


def test_json_is_no_scenario(files: Path) -> None:
    (files / "bare").write_text("{}")
    assert "is JSON, and scenarios are TOML" in said("simulate FILE", files / "bare")


def test_reads_files_with_a_byte_order_mark(files: Path) -> None:
    assert wiresum("explain", str(files / "marked")).returncode == 0
    (files / "rows.csv").write_bytes(b"\xef\xbb\xbfjob_id,submit_time,gpu_num\na,0,0.5\nb,1,0\n")
    done = wiresum("workload", "table", str(files / "rows.csv"))
    assert done.returncode == 0
    assert "1 of 2 jobs have no GPU and are left out" in " ".join(done.stderr.split())


def test_only_commands_that_need_the_secret_open_it(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert wiresum("plan", "star:workers=3", "--engine", "udp", "-o", str(plan)).returncode == 0
    secret = secret_beside(plan)
    secret.unlink()
    os.mkfifo(secret)
    for line in ("explain FILE", "predict FILE -t star:workers=3", "adjust FILE -t star:workers=3"):
        assert wiresum(*(str(plan) if word == "FILE" else word for word in line.split())).returncode == 0
    for line in ("keys FILE --node 0", "selftest FILE"):
        assert f"secret {secret}: cannot be read (is a FIFO, not a regular file)" in said(line, plan)


@pytest.mark.parametrize("command", ["workload coflows FILE", "workload table FILE", "topology import FILE -f hpcc"])
def test_importers_name_the_file(command: str, files: Path) -> None:
    assert "line 1" in said(command, files / "plan")


def test_a_network_that_lacks_a_node_of_the_plan_names_some_that_it_has() -> None:
    done = wiresum("predict", str(PLAN), "-t", "optical:units=64")
    assert done.returncode == 2
    assert "topology optical has no node" in done.stderr
    assert "more" in done.stderr
    assert len(done.stderr) < 200


def test_a_topology_that_is_not_there_is_said_before_its_options() -> None:
    assert "there is no topology absent" in wiresum("plan", "absent", "--workers", "2").stderr


def test_a_secret_that_is_none_is_named(files: Path) -> None:
    assert "must be 64 hexadecimal digits" in said(f"keys {PLAN} --node 0 --secret FILE", files / "tables")


def documents(of: type[FileDocument] = FileDocument) -> Iterator[type[FileDocument]]:
    for one in of.__subclasses__():
        yield one
        yield from documents(one)


def test_the_command_that_writes_a_document_is_there() -> None:
    for module in pkgutil.walk_packages(package.__path__, "wiresum."):
        if module.name.split(".")[1] in {
            "plan",
            "sparse",
            "sim",
            "topology",
            "schedule",
            "workload",
            "turns",
            "predict",
        }:
            importlib.import_module(module.name)
    for document in documents():
        line = document.command or document.what
        assert wiresum(*line.split(), "--help").returncode == 0, f"{document.__name__}: there is no `wiresum {line}`"


def test_every_format_is_known_by_its_use() -> None:
    inner = {"wiresum-progress", "wiresum-online-progress", "wiresum-sparse"}
    wanted = {document.wanted().partition("/")[0] for document in documents() if document.wanted()}
    assert wanted - inner <= set(formats.KINDS)
