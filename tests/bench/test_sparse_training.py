"""Tiny runs of `wiresum bench sparse-training`, over loopback; and what its report is made of."""

from __future__ import annotations

import pytest

from wiresum.bench.sparse_training import measure as benchmark
from wiresum.bench.sparse_training.command import MODELS, RIVALS, Options
from wiresum.bench.sparse_training.measure import Training
from wiresum.bench.sparse_training.models import CASES
from wiresum.bench.sparse_training.worker import GLOO, PRODUCT, PUSH_PULL
from wiresum.errors import TestbedError

STEPS = 4


@pytest.mark.parametrize("model", CASES)
def test_every_method_trains_to_the_same_losses(model):
    options = Options(
        models=(model,), workers=2, servers=2, steps=STEPS, scale=0.001, batch=64, engine="udp", loopback=True
    )
    report = benchmark.measure(options)
    assert [result.extra["method"] for result in report.results] == [PRODUCT, *RIVALS]
    for result in report.results:
        assert len(result.extra["losses"]) == len(result.extra["at_seconds"]) == STEPS
        assert min(result.runs) > 0
    assert [ratio.name for ratio in report.ratios] == [f"{model}: wiresum / {rival}" for rival in RIVALS]


def test_losses_that_differ_are_an_error():
    def training(method: str, *losses: float) -> Training:
        return Training("ncf", method, list(losses), [1.0] * len(losses), 2)

    benchmark._check_losses([training("wiresum", 0.7, 0.6), training("gloo", 0.7, 0.6001)])
    with pytest.raises(TestbedError, match=r"losses of wiresum and gloo differ by 0\.1 after equal steps"):
        benchmark._check_losses([training("wiresum", 0.7, 0.6), training("gloo", 0.7, 0.5)])


def test_the_command_knows_the_models_and_rivals():
    assert tuple(CASES) == MODELS
    assert RIVALS == (PUSH_PULL, GLOO)
