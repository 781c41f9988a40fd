"""Collectives of a plan: the bytes of each link and direction, beside the benchmark's limits and a few by hand."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from wiresum.bench.collectives.command import Options
from wiresum.bench.collectives.measure import shape_of as measured_shape
from wiresum.errors import PlanError
from wiresum.plan.choices import COLLECTIVES
from wiresum.plan.job import Job
from wiresum.planners import plan
from wiresum.predict import predict
from wiresum.predict.collectives import predict_collective, shape_of
from wiresum.topology.generators.star import star

SIZE, WORKERS, RATE_BPS = 25_000_000, 4, 500e6
NETWORK = star(WORKERS, RATE_BPS)
COPYING, PLAIN = (plan(NETWORK, Job(copies=copies, gradient_bytes=SIZE)) for copies in (True, False))
ABOUT = 2e-3
"""Headers, exponents and barriers of a 25 MB tensor, counted twice in two ways."""
WAIT_S = 60


def loads(collective, placed=COPYING):
    """Bytes by worker: up, down."""
    found = predict_collective(NETWORK, placed, SIZE, collective)
    carried = {(link.capacity.source, link.capacity.target): link.wire_bytes for link in found.links}
    names = [worker.name for worker in placed.workers]
    return {name: (carried[name, "switch"], carried["switch", name]) for name in names}


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_the_busiest_worker_is_the_benchmarks_limit(collective):
    limit = measured_shape(Options(workers=WORKERS, size_bytes=SIZE), Job(copies=True, gradient_bytes=SIZE))
    traffic = limit.traffic(collective)
    found = loads(collective).values()
    assert max(up for up, _ in found) == pytest.approx(traffic.up, rel=ABOUT)
    assert max(down for _, down in found) == pytest.approx(traffic.down, rel=ABOUT)
    seconds = predict_collective(NETWORK, COPYING, SIZE, collective).seconds
    assert seconds == pytest.approx(traffic.seconds(RATE_BPS), rel=ABOUT)


@pytest.mark.parametrize(
    ("collective", "root", "others"),
    [
        ("all_reduce", (1, 1), (1, 1)),
        ("reduce_scatter", (3 / 4, 1 / 4), (3 / 4, 1 / 4)),
        ("all_gather", (1 / 4, 3 / 4), (1 / 4, 3 / 4)),
        ("pair", (1, 1), (1, 1)),
        ("broadcast", (1, 0), (0, 1)),
        ("reduce", (0, 1), (1, 0)),
        ("gather", (0, 3 / 4), (1 / 4, 0)),
        ("scatter", (3 / 4, 0), (0, 1 / 4)),
    ],
)
def test_each_direction_carries_its_share_of_the_tensor(collective, root, others):
    whole = SIZE * (1 + shape_of(COPYING, SIZE).header_bytes / COPYING.job.payload_bytes)
    told = loads(collective)
    assert told.pop("w0") == pytest.approx([part * whole for part in root], rel=5e-3, abs=whole * 5e-3)
    for load in told.values():
        assert load == pytest.approx([part * whole for part in others], rel=5e-3, abs=whole * 5e-3)


@pytest.mark.parametrize("collective", ["reduce_scatter", "reduce"])
def test_without_copies_a_sum_for_one_is_an_all_reduce(collective):
    assert predict_collective(NETWORK, PLAIN, SIZE, collective) == predict(NETWORK, PLAIN, SIZE)


@pytest.mark.parametrize("collective", ["all_gather", "broadcast", "pair", "gather", "scatter"])
def test_without_copies_a_copy_is_refused_with_the_way_out(collective):
    with pytest.raises(PlanError, match=f"{collective} goes through Gloo.*--copies"):
        predict_collective(NETWORK, PLAIN, SIZE, collective)


def test_a_slow_link_holds_up_the_direction_that_carries_most():
    slow = NETWORK.model_copy(
        update={
            "links": [
                link.model_copy(update={"bandwidth_bps": RATE_BPS / 3}) if "w2" in (link.source, link.target) else link
                for link in NETWORK.links
            ]
        }
    )
    found = predict_collective(slow, COPYING, SIZE, "all_gather")
    assert (found.bottleneck.capacity.source, found.bottleneck.capacity.target) == ("switch", "w2")
    assert found.seconds == pytest.approx(3 * predict_collective(NETWORK, COPYING, SIZE, "all_gather").seconds)


def asked(*arguments):
    command = [sys.executable, "-m", "wiresum", "predict", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)


def test_the_command_names_the_collective(tmp_path):
    path = tmp_path / "plan.json"
    COPYING.write(path)
    told = json.loads(asked(str(path), "-t", "star", "--collective", "pair", "--json").stdout)
    assert told["collective"] == "pair"
    assert told["seconds"] == pytest.approx(predict_collective(star(), COPYING, SIZE, "pair").seconds)
    refused = asked(str(path), "-t", "star", "--collective", "pair", "--upload-only")
    assert refused.returncode == 2
    assert "a pair is predicted without it" in " ".join(refused.stderr.split())
    assert "is not one of all_reduce" in " ".join(asked(str(path), "-t", "star", "--collective", "x").stderr.split())
