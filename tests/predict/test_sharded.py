"""Steps of sharded models: their time and bytes, beside those of their collectives and the benchmark's wire limit."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from wiresum.bench.fsdp.measure import step_traffic
from wiresum.errors import PlanError
from wiresum.plan.choices import DEFAULT_BLOCKS
from wiresum.plan.job import Job
from wiresum.planners import plan
from wiresum.predict.collectives import predict_collective, shape_of
from wiresum.predict.sharded import BACKWARD, FORWARD, MOST_REDUCE_SCATTERS, PASSED, ShardedStep, predict_step
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg

SIZE, RATE_BPS = 25_000_000, 500e6
WAIT_S = 60
ABOUT = 2e-3
"""Headers, exponents and barriers, counted twice in two ways."""


def networks():
    """Stars of 4 and 8, and a tree whose copies are by three servers."""
    for workers in (4, 8):
        network = star(workers, RATE_BPS)
        yield f"star of {workers}", network, plan(network, Job(copies=True))
    yield "xagg", xagg(), plan(xagg(), Job(copies=True), planner="xagg")


NETWORKS = {name: (network, placed) for name, network, placed in networks()}
STAR = NETWORKS["star of 4"]


@pytest.fixture(params=NETWORKS.values(), ids=NETWORKS)
def network(request):
    return request.param


def carried(found):
    return {link.capacity: link.wire_bytes for link in found.links}


@pytest.mark.parametrize("blocks", [1, 3, 8])
def test_what_waits_adds_up_and_what_overlaps_is_a_pair(network, blocks):
    block_bytes = ShardedStep(blocks).block_bytes(SIZE)
    gather, scatter, both = (
        predict_collective(*network, block_bytes, name).seconds for name in ("all_gather", "reduce_scatter", "pair")
    )
    plain, ahead = (predict_step(*network, SIZE, ShardedStep(blocks, way)).seconds for way in (False, True))
    assert plain == pytest.approx(blocks * (2 * gather + scatter))
    assert ahead == pytest.approx((blocks + 1) * gather + (blocks - 1) * both + scatter)
    assert ahead <= plain * (1 + 1e-9)
    assert blocks > 1 or ahead == plain


def test_each_link_carries_what_the_collectives_of_a_step_do(network):
    block_bytes = ShardedStep().block_bytes(SIZE)
    gather, scatter = (carried(predict_collective(*network, block_bytes, name)) for name in PASSED)
    expected = {link: DEFAULT_BLOCKS * (2 * gather[link] + scatter[link]) for link in gather}
    for way in (False, True):
        assert carried(predict_step(*network, SIZE, ShardedStep(overlap=way))) == pytest.approx(expected)


@pytest.mark.parametrize("workers", [4, 8])
def test_the_busiest_direction_is_the_benchmarks_limit(workers):
    topology, placed = NETWORKS[f"star of {workers}"]
    found = predict_step(topology, placed, SIZE, ShardedStep(overlap=True))
    block = shape_of(placed, ShardedStep().block_bytes(SIZE))
    limit_s = step_traffic(block, DEFAULT_BLOCKS).seconds(RATE_BPS)
    assert found.bottleneck.busy_seconds == pytest.approx(limit_s, rel=ABOUT)
    header = 1 + block.header_bytes / block.payload_bytes
    assert limit_s == pytest.approx((2 * workers - 1) / workers * SIZE * header * 8 / RATE_BPS, rel=0.01)
    assert found.seconds > limit_s, "the first all-gather and the last reduce-scatter run alone"


def test_more_blocks_bring_a_step_closer_to_its_limit():
    seconds = [predict_step(*STAR, SIZE, ShardedStep(blocks, overlap=True)).seconds for blocks in (1, 2, 4, 8, 16)]
    assert seconds == sorted(seconds, reverse=True)


def test_half_as_wide_elements_take_half_the_time():
    step = ShardedStep(overlap=True)
    half = predict_step(*STAR, SIZE // 2, step, element_bytes=2).seconds
    assert half == pytest.approx(predict_step(*STAR, SIZE, step).seconds / 2, rel=0.01)


def test_without_copies_a_step_is_refused_with_the_way_out():
    with pytest.raises(PlanError, match=r"fsdp goes through Gloo.*--copies"):
        predict_step(STAR[0], plan(STAR[0], Job()), SIZE, ShardedStep())


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_the_actions_of_a_step_are_whole(blocks, overlap):
    actions = ShardedStep(blocks, overlap).actions()
    begun = [int(action["begin"]) for action in actions if "begin" in action]
    assert [begun.count(index) for index in range(len(PASSED))] == [2 * blocks, blocks]
    computed = [action["compute"] for action in actions if "compute" in action]
    assert sum(computed[:blocks]) == pytest.approx(FORWARD)
    assert sum(computed[blocks:]) == pytest.approx(BACKWARD)
    so_far = scattered = 0
    for action in actions:
        so_far += "begin" in action
        assert action.get("wait", 0) <= so_far
    for number, action in enumerate(actions):
        if action == {"begin": PASSED.index("reduce_scatter")}:
            waited = max(int(one.get("wait", 0)) for one in actions[:number])
            scattered += 1
            assert scattered - begun[:waited].count(PASSED.index("reduce_scatter")) <= MOST_REDUCE_SCATTERS


def asked(*arguments):
    command = [sys.executable, "-m", "wiresum", "predict", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)


def test_the_command_tells_both_ways(tmp_path):
    path = tmp_path / "plan.json"
    plan(star(), Job(copies=True)).write(path)
    usual = (str(path), "-t", "star", "--collective", "fsdp", "--blocks", "4")
    told = json.loads(asked(*usual, "--overlap", "--json").stdout)
    assert (told["collective"], told["blocks"], told["overlap"]) == ("fsdp", 4, True)
    assert told["seconds"] == told["seconds_with_overlap"] < told["seconds_without_overlap"]
    shown = " ".join(asked(*usual).stdout.split())
    assert f"without overlap {told['seconds_without_overlap']:.4f} s, with overlap {told['seconds']:.4f} s" in shown
    assert "a step of fsdp is predicted without it" in " ".join(asked(*usual, "--upload-only").stderr.split())
    for option in (["--blocks", "4"], ["--overlap"]):
        refused = asked(str(path), "-t", "star", "--collective", "pair", *option)
        assert refused.returncode == 2
        assert f"{option[0]}: is for --collective fsdp, not for pair" in " ".join(refused.stderr.split())
