"""What a step of FSDP2 must move, and what a report says of measured runs."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from wiresum.bench.fsdp.command import Mesh, Options, parse_mesh
from wiresum.bench.fsdp.measure import replica_traffic, step_traffic, to_report, width_of
from wiresum.cli.main import app
from wiresum.errors import TestbedError
from wiresum.predict.collectives import Shape

HEADERS = 14 + 28 + 38
PACKET = 2944 + HEADERS
BARRIER = 32 + HEADERS
BLOCK = Shape(elements=128 * 736, element_bytes=4, workers=4, payload_bytes=2944)
"""128 packets, which two barriers are about."""


def test_a_step_gathers_twice_and_scatters_once():
    traffic = step_traffic(BLOCK, 3)
    assert traffic.up == 3 * ((32 + 32 + 96 + 3) * PACKET + 6 * BARRIER)
    assert traffic.down == 3 * ((96 + 96 + 32 + 3) * PACKET + 6 * BARRIER)


def test_the_limit_is_that_of_the_theory_but_for_headers_and_preambles():
    """(2 n - 1) / n of the model."""
    model_bytes = 3 * BLOCK.elements * BLOCK.element_bytes
    assert step_traffic(BLOCK, 3).down == pytest.approx(7 / 4 * model_bytes, rel=0.05)


@pytest.mark.parametrize("workers", [2, 4, 7])
def test_blocks_fill_the_size_and_are_shared_evenly(workers):
    width = width_of(Options(workers=workers))
    assert width % workers == 0
    assert 0.97 * 25e6 <= 8 * width**2 * 4 <= 25e6


def test_a_model_without_a_row_for_each_worker_is_refused():
    with pytest.raises(TestbedError, match="--size: 100 bytes in 8 blocks"):
        width_of(Options(size_bytes=100))


def test_a_mesh_of_some_workers_is_refused():
    done = CliRunner().invoke(app, ["bench", "fsdp", "--workers", "4", "--mesh", "2"])
    assert done.exit_code != 0
    assert "a mesh of 2 ranks is not the 4 workers" in " ".join(done.output.split())


@pytest.mark.parametrize(("given", "made"), [("4", Mesh(1, 4)), ("2x4", Mesh(2, 4)), ("12x10", Mesh(12, 10))])
def test_meshes(given, made):
    assert parse_mesh(given) == made
    assert Options(mesh=made).grid.ranks == made.replicas * made.shards


@pytest.mark.parametrize("given", ["", "1", "2x1", "0x4", "2x", "x4", "2x4x2", "-4", "four"])
def test_what_is_no_mesh_is_refused(given):
    with pytest.raises(typer.BadParameter, match="replicas and shards, as 2x4"):
        parse_mesh(given)


def test_without_a_mesh_all_workers_are_shards():
    assert Options().grid == Mesh(1, 4)
    assert Options(workers=7).grid == Mesh(1, 7)


def test_replicas_sum_a_shard_once_down_every_link():
    assert replica_traffic(BLOCK, 1).up == 0
    for replicas in (2, 4):
        assert replica_traffic(BLOCK, replicas).up == replica_traffic(BLOCK, replicas).down == 33 * PACKET
    assert step_traffic(BLOCK, 3, replicas=2).up == step_traffic(BLOCK, 3).up + 3 * 33 * PACKET


def test_ratios_are_named_by_way():
    options = Options(workers=4, rate_bps=500e6, steps=2)
    limit = step_traffic(BLOCK, options.blocks).seconds(500e6)
    times = {(False, "wiresum"): 3, (False, "gloo"): 4, (True, "wiresum"): 2, (True, "gloo"): 3}
    runs = [
        {"overlapped": way, "backend": backend, "seconds": 2 * factor * limit, "bytes_up": 14, "bytes_down": 28}
        for (way, backend), factor in times.items()
    ]
    report = to_report(options, BLOCK, runs, [])
    assert {ratio.name: pytest.approx(ratio.value) for ratio in report.ratios} == {
        "unmodified: wiresum / limit": 3, "unmodified: gloo / wiresum": 4 / 3, "overlap: wiresum / limit": 2,
        "overlap: gloo / wiresum": 1.5, "wiresum: unmodified / overlap": 1.5, "gloo: unmodified / overlap": 4 / 3,
    }  # fmt: skip
    ours = report.to_json()["results"][0]
    assert ours["limit_seconds"] == pytest.approx(limit)
    assert ours["steps_per_second"] == pytest.approx(1 / (3 * limit))
    assert {key: ours[key] for key in ("name", "overlapped", "backend", "bytes_up", "bytes_down")} == {
        "name": "unmodified: wiresum", "overlapped": False, "backend": "wiresum", "bytes_up": 7, "bytes_down": 14
    }  # fmt: skip


def test_one_way_alone_has_no_ratio_to_the_other():
    options = Options(workers=4, rate_bps=500e6, steps=1, overlap=True, against=())
    runs = [{"overlapped": True, "backend": "wiresum", "seconds": 1, "bytes_up": 1, "bytes_down": 1}]
    report = to_report(options, BLOCK, runs, [])
    assert [ratio.name for ratio in report.ratios] == ["overlap: wiresum / limit"]


def quick(*options):
    """The report of the smallest training, with these options."""
    words = ["bench", "fsdp", "--quick", "--size", "200kB", "--steps", "1", "--engine", "udp", "--json", *options]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.needs("namespaces")
def test_rows_and_columns_of_a_mesh_are_in_the_network():
    report = quick("--mesh", "2x2", "--workers", "4")
    assert report["parameters"]["mesh"] == "2x2"
    for axis in AXES:
        place = next(line for line in report["notes"] if line.startswith(axis))
        assert "Gloo 0 collectives" in place
        assert "carried 0 collectives" not in place
    assert "losses over gloo differ" in " ".join(report["notes"])


@pytest.mark.needs("namespaces")
def test_mixed_precision_travels_in_bfloat16():
    report = quick("--dtype", "bfloat16")
    assert {result["dtype"] for result in report["results"]} == {"bfloat16"}
    summed = [line for line in report["notes"] if "reduce_scatter" in line and line.endswith("summed")]
    assert summed
    assert all("bfloat16" in line for line in summed)


AXES = ("shards, 2 ranks", "replicas, 2 ranks")
