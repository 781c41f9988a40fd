"""Steps of sharded models: packets, flows and the prediction beside each other, and what overlap can and cannot do."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.test_run import simulated

from wiresum.cli.simulate import load
from wiresum.plan.exchanges import servers_of
from wiresum.plan.job import Job
from wiresum.planners import plan
from wiresum.predict.sharded import ShardedStep, predict_step
from wiresum.sim import ScenarioFile, run

BYTES = 8_000_000
BLOCKS = 4
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "fsdp.toml"
TEXT = f"""
format = "wiresum-scenario/1"
topology = "star:workers=4,rate=1gbit"
[[job]]
collective = "fsdp"
copies = true
bytes = {BYTES}
blocks = {BLOCKS}
rounds = 2
"""
NETWORKS = {
    "star of 4": ("star:workers=4,rate=1gbit", "direct", 0.05),
    "star of 8": ("star:workers=8,rate=1gbit", "direct", 0.05),
    "xagg": ("xagg", "xagg", 0.12),
}
"""Topology, planner, and how much longer packets may take than flows: round trips of agreements and barriers, for which
links are idle where two collectives end together, and where servers exchange over links that they share, queues."""
FLOWS_TOLERANCE = 1e-3
"""Flows of a step in which a collective of one server is done before that of another; a prediction has both end at
once."""
BYTES_TOLERANCE = 0.04
"""Joining, questions and answers, of a small model on eight workers and three servers."""


@pytest.fixture
def scenario(tmp_path):
    return written(tmp_path)


def written(folder):
    path = folder / "it.toml"
    path.write_text(TEXT)
    return path


def seconds(path, **changes):
    """The time of the last step, in flows."""
    return simulated(path, fidelity="flows", **changes).seconds_of("job")[-1]


def constant(compute_s):
    return {"kind": "constant", "seconds": compute_s}


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("topology", "planner", "slower"), NETWORKS.values(), ids=NETWORKS)
def test_packets_flows_and_the_prediction_agree(scenario, topology, planner, slower, overlap):
    changes = {"topology": topology, "job.0.planner": planner, "job.0.overlap": overlap}
    packets = simulated(scenario, check_sums=True, **changes)
    flows = simulated(scenario, fidelity="flows", **changes)
    network = load(topology)
    made = plan(network, Job(copies=True), planner=planner)
    assert len(servers_of(made)) == (3 if topology == "xagg" else 1)
    predicted = predict_step(network, made, BYTES, ShardedStep(BLOCKS, overlap))
    packets_s, flows_s = (outcome.seconds_of("job")[-1] for outcome in (packets, flows))
    assert flows_s == pytest.approx(predicted.seconds, rel=FLOWS_TOLERANCE if overlap else 1e-9)
    assert flows_s <= packets_s * 1.001
    assert packets_s <= flows_s * (1 + slower)
    for outcome, tolerance in ((flows, 1e-9), (packets, BYTES_TOLERANCE)):
        carried = {(link["source"], link["target"]): link["wire_bytes"] for link in outcome.links}
        for load_ in (one for one in predicted.links if one.capacity.link):
            ends = load_.capacity.source, load_.capacity.target
            assert carried[ends] == pytest.approx(2 * load_.wire_bytes, rel=tolerance)
    workers = len(made.workers)
    shard, scattered = BYTES // BLOCKS // workers, BYTES // BLOCKS // 4
    a_block = 2 * workers * (workers - 1) * shard + scattered
    assert packets.end["checked_values"] == 2 * BLOCKS * a_block


@pytest.mark.parametrize("overlap", [False, True])
def test_one_block_is_two_all_gathers_and_a_reduce_scatter(scenario, overlap):
    whole = seconds(scenario, **{"job.0.blocks": 1, "job.0.overlap": overlap})
    scenario.write_text(TEXT.replace(f"blocks = {BLOCKS}\n", ""))
    gather, scatter = (seconds(scenario, **{"job.0.collective": name}) for name in ("all_gather", "reduce_scatter"))
    assert whole == pytest.approx(2 * gather + scatter)


@settings(max_examples=30, deadline=None)
@given(
    workers=st.integers(2, 6),
    blocks=st.integers(1, 6),
    computes=st.lists(st.floats(0, 0.4), min_size=2, max_size=6),
    is_tree=st.booleans(),
)
def test_overlap_is_never_slower(tmp_path_factory, workers, blocks, computes, is_tree):
    path = written(tmp_path_factory.mktemp("scenario"))
    names = [f"{'W' if is_tree else 'w'}{rank + is_tree}" for rank in range(min(len(computes), workers))]
    changes = {
        "topology": "xagg" if is_tree else f"star:workers={workers},rate=1gbit",
        "job.0.planner": "xagg" if is_tree else "direct",
        "job.0.blocks": blocks,
        "job.0.computes": {name: constant(compute_s) for name, compute_s in zip(names, computes, strict=False)},
    }
    plain, ahead = (seconds(path, **changes, **{"job.0.overlap": overlap}) for overlap in (False, True))
    assert ahead <= plain * (1 + 1e-6)


@pytest.mark.parametrize("blocks", [1, 3, 8])
@pytest.mark.parametrize("compute_s", [0.0, 0.05, 0.2])
def test_overlap_is_not_slower_in_packets_where_collectives_queue(scenario, compute_s, blocks):
    changes = {"job.0.bytes": 4_000_000, "job.0.blocks": blocks, "job.0.compute": constant(compute_s)}
    plain, ahead = (
        simulated(scenario, **changes, **{"job.0.overlap": overlap}).seconds_of("job")[-1] for overlap in (False, True)
    )
    assert ahead <= plain * 1.001
    assert blocks == 1 or ahead < 0.98 * plain


@pytest.mark.parametrize("fidelity", ["packets", "flows"])
def test_computing_hides_all_but_the_ends_of_its_passes(scenario, fidelity):
    """With much computing, what is left are the first all-gather of each pass and the last reduce-scatter."""
    compute_s, plain = 3.0, {"job.0.blocks": BLOCKS, "fidelity": fidelity}
    one, none = (
        simulated(scenario, **plain, **{"job.0.overlap": overlap, "job.0.compute": constant(compute_s)})
        for overlap in (True, False)
    )
    idle = simulated(scenario, **plain).seconds_of("job")[-1]
    ahead_s, plain_s = (outcome.seconds_of("job")[-1] for outcome in (one, none))
    assert plain_s == pytest.approx(compute_s + idle, rel=1e-3)
    assert ahead_s == pytest.approx(compute_s + idle / BLOCKS, rel=2e-3)


def test_who_computes_longer_is_waited_for_at_each_collective(scenario):
    late = {"job.0.computes": {"w1": constant(0.3)}, "job.0.compute": constant(0.1)}
    alike = {"job.0.compute": constant(0.3)}
    assert seconds(scenario, **late) == pytest.approx(seconds(scenario, **alike))


@pytest.mark.parametrize("window", [32, 192])
def test_what_begins_beside_another_collective_does_not_wait_behind_its_window(window):
    """Flows have no queues. Where computing and collectives take as long, packets are little slower all the same."""
    changes = {"job.0.window": window, "job.0.compute": constant(0.2)}
    packets, flows = (simulated(EXAMPLE, fidelity=name, **changes) for name in ("packets", "flows"))
    assert packets.seconds_of("sharded")[-1] < 1.09 * flows.seconds_of("sharded")[-1]


def test_the_example_shows_what_overlap_brings():
    ahead, plain = (
        run(ScenarioFile.read(EXAMPLE, {"job.0.overlap": overlap}), load).seconds_of("sharded")[-1]
        for overlap in (True, False)
    )
    assert ahead < 0.85 * plain
