"""XAgg Fig. 1 to the last digit: 1.25 GB, W2 has half the rate, W3 begins two seconds late."""

import pytest
from tests.predict.networks import GBIT, fig1

from wiresum.predict import predict_tree

GRADIENT_BYTES = 1.25e9
LATE = {"W3": 2.0}
PARAMETER_SERVER = {"W1": "PS", "W2": "PS", "W3": "PS", "W4": "PS", "PS": None}
WITH_SWITCH = {"W1": "fabric", "W2": "fabric", "W3": "fabric", "W4": "PS", "fabric": "PS", "PS": None}
WITH_AGGREGATOR = {"W1": "S1", "W2": "S1", "W3": "S1", "W4": "PS", "S1": "PS", "PS": None}


def fig1_prediction(tree, policy="cache"):
    return predict_tree(fig1(), tree, GRADIENT_BYTES, starts=LATE, upload_only=True, policy=policy)


def rates(prediction, source):
    """Gbit/s of a sender, as [begin, end, rate]."""
    spans = next(one.spans for one in prediction.flows if one.flow.source == source)
    return [pytest.approx([span.begin_seconds, span.end_seconds, span.rate_bps / GBIT]) for span in spans]


def test_a_parameter_server_takes_four_seconds():
    prediction = fig1_prediction(PARAMETER_SERVER)
    assert prediction.seconds == pytest.approx(4, rel=1e-12)
    for early in ("W1", "W2", "W4"):
        assert rates(prediction, early) == [[0, 2, 10 / 3], [2, 10 / 3, 2.5]]
    assert rates(prediction, "W3") == [[2, 10 / 3, 2.5], [10 / 3, 4, 10]]


def test_a_switch_without_memory_takes_four_seconds():
    prediction = fig1_prediction(WITH_SWITCH, policy="pool")
    assert prediction.seconds == pytest.approx(4, rel=1e-12)
    assert rates(prediction, "fabric") == [[2, 4, 5]]


def test_servers_that_cache_take_three_seconds():
    prediction = fig1_prediction(WITH_AGGREGATOR)
    assert prediction.seconds == pytest.approx(3, rel=1e-12)
    assert rates(prediction, "W1") == [[0, 2, 5]]
    assert rates(prediction, "W2") == [[0, 2, 5]]
    assert rates(prediction, "W4") == [[0, 1, 10]]
    assert rates(prediction, "W3") == [[2, 3, 10]]
    assert rates(prediction, "S1") == [[2, 3, 10]]
