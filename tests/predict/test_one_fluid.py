"""The prediction is the simulator's fluid, and says what a plain account of the model says."""

import pytest
from hypothesis import given, settings
from tests.conformance.test_plans import BYTES, TOPOLOGIES, load, made, unplanned
from tests.predict import reference
from tests.predict.test_predict import trees

from wiresum.planners import PLANNERS
from wiresum.predict import Prediction, predict, predict_tree

EXACT = 1e-9


def compare(prediction: Prediction) -> None:
    capacities = {load.capacity: load.bandwidth_bps for load in prediction.links}
    expected = reference.ends([one.flow for one in prediction.flows], capacities)
    assert [one.end_seconds for one in prediction.flows] == pytest.approx(expected, rel=EXACT)
    assert prediction.seconds == pytest.approx(max(expected), rel=EXACT)


@settings(max_examples=150)
@given(trees())
def test_random_trees(case):
    network, tree, starts, policy, upload_only = case
    compare(predict_tree(network, tree, 1e9, starts=starts, policy=policy, upload_only=upload_only))


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("planner", [*PLANNERS])
@pytest.mark.parametrize("kind", ["tree", "fabric"])
def test_plans_of_every_planner(planner, topology, kind):
    if unplanned(planner, topology, kind) is None:
        plan = made(planner, topology, kind)
        starts = {worker.name: 0.01 * worker.rank for worker in plan.workers}
        for late in ({}, starts):
            compare(predict(load(topology).with_addresses(), plan, BYTES, late, barrier=False))
