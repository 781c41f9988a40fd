"""`wiresum testbed run --tables`: sparse and dense parts of one job, with the servers that the testbed starts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from wiresum.testbed.tables import lowest_switches, summing_switches
from wiresum.topology.generators.leaf_spine import leaf_spine
from wiresum.topology.model import Topology

PATIENCE_S = 170.0
"""Two ranks import PyTorch, on cores that may be busy."""
SCRIPT = Path(__file__).with_name("embedding_worker.py")
HOT = {
    "format": "wiresum-hot-map/1", "version": 1, "dim": 16, "positions": 2, "rows": [[0, 3, 0, "A"], [0, 4, 1, "B"]]
}  # fmt: skip


STAR = ("star", "--workers", "2")


def run(*options: str, dtype: str | None = None, topology: Sequence[str] = STAR) -> subprocess.CompletedProcess[str]:
    """Runs the script, over a star of two workers unless told otherwise, with rows of a type."""
    script = [str(SCRIPT), *([dtype] if dtype else [])]
    line = [sys.executable, "-m", "wiresum", "testbed", "run", *topology, *options, "--json"]
    return subprocess.run(
        [*line, "--", sys.executable, *script], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def described(path: Path, *dtype: str) -> Path:
    """The script's tables as a file."""
    printed = subprocess.run(
        [sys.executable, str(SCRIPT), "tables", *dtype], capture_output=True, text=True, check=True
    )
    path.write_text(printed.stdout)
    return path


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return described(tmp_path_factory.mktemp("tables") / "tables.json")


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(["--rate", "200mbit", "--engine", "udp"], marks=pytest.mark.needs("namespaces"), id="namespaces"),
        pytest.param(["--rate", "200mbit", "--rows-engine", "xdp"], marks=pytest.mark.needs("xdp"), id="in the kernel"),
        pytest.param(["--loopback"], id="loopback"),
    ],
)
@pytest.mark.parametrize("servers", [[], ["--servers", "2"]], ids=["beside the workers", "of their own"])
def test_a_script_trains_with_the_servers_that_the_testbed_starts(place, servers, tables, tmp_path, name):
    hot = tmp_path / "hot.json"
    hot.write_text(json.dumps(HOT))
    done = run(*place, *servers, "--tables", str(tables), "--hot", str(hot), "--name", name)
    assert done.returncode == 0, done.stderr
    assert sorted(line for line in done.stderr.splitlines() if "same rows" in line) == [
        "[0] same rows",
        "[1] same rows",
    ]


@pytest.mark.needs("xdp")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rows_of_16_bits_are_summed_in_the_kernel(dtype, tmp_path, name):
    tables, hot = described(tmp_path / "tables.json", dtype), tmp_path / "hot.json"
    hot.write_text(json.dumps(HOT))
    place = ["--rate", "200mbit", "--rows-engine", "xdp", "--tables", str(tables), "--hot", str(hot)]
    done = run(*place, "--name", name, dtype=dtype)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("same rows") == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--hot", "hot.json"], "give both"),
        (["--tables", "missing.json"], "tables missing.json: cannot be read"),
        (["--tables", "{tables}", "--jobs", "jobs.json"], "leave --tables and --hot out"),
        (["--tables", "{tables}", "--rows-engine", "xdp"], "the kernel sums hot rows at a switch in a namespace"),
        (["--tables", "{tables}", "--rows-engine", "xdp", "--engine", "xdp"], "one XDP program runs on a port"),
    ],
)
def test_options_that_do_not_fit_are_named(options, says, tables, name):
    done = run(*(option.format(tables=tables) for option in options), "--loopback", "--name", name)
    assert done.returncode != 0
    assert says in done.stderr.replace("\n", " ")


def racks(path: Path) -> Path:
    """Two racks with two workers each, and a server in the second; sums are complete in the first."""
    made = leaf_spine(2, 1, 3, 200e6, programmable=1.0).model_dump(mode="json", exclude_none=True)
    made["nodes"] = [
        {**node, "sums_at": "spine0"} if node["name"].startswith("leaf") else node
        for node in made["nodes"]
        if node["name"] != "w0"
    ]
    made["links"] = [link for link in made["links"] if link["source"] != "w0"]
    path.write_text(json.dumps(made))
    return path


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param("udp", marks=pytest.mark.needs("namespaces"), id="user space"),
        pytest.param("xdp", marks=pytest.mark.needs("xdp"), id="the kernel beneath user space"),
    ],
)
def test_rows_are_summed_in_each_rack_and_then_for_all(engine, tables, tmp_path, name):
    topology, hot = racks(tmp_path / "racks.json"), tmp_path / "hot.json"
    assert summing_switches(Topology.read(topology)) == ["leaf0", "leaf1"]
    assert lowest_switches(Topology.read(topology)) == ["leaf1"]
    hot.write_text(json.dumps(HOT))
    place = ["--engine", "udp", "--rows-engine", engine, "--tables", str(tables), "--hot", str(hot)]
    done = run(*place, "--name", name, topology=[str(topology)])
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("same rows") == 4
