"""The limits of `wiresum bench sparse-allreduce`, by moving rows one by one, and its report."""

from __future__ import annotations

import numpy as np
import pytest

import torch
from wiresum.bench.sparse_allreduce import measure as benchmark
from wiresum.bench.sparse_allreduce.balanced import owners
from wiresum.bench.sparse_allreduce.measure import Options
from wiresum.bench.sparse_allreduce.traffic import Round
from wiresum.errors import TraceError

WORKERS = 5


@pytest.fixture(scope="module")
def pushed() -> Round:
    random = np.random.default_rng(3)
    return Round([np.unique(random.zipf(1.3, size=200 + 50 * rank) % 10_000) for rank in range(WORKERS)], dim=4)


def test_gloo_brings_every_rank_the_rows_of_all_others(pushed: Round) -> None:
    received = [sum(len(keys) for other, keys in enumerate(pushed.keys) if other != rank) for rank in range(WORKERS)]
    assert pushed.gloo_bytes() == max(received) * (8 + 16)


def test_balanced_moves_rows_to_their_owner_and_sums_to_everyone(pushed: Round) -> None:
    loads = np.zeros((2, 2, WORKERS), dtype=int)  # step, up or down, rank
    owned: list[set[int]] = [set() for _ in range(WORKERS)]
    for rank, keys in enumerate(pushed.keys):
        for key, owner in zip(keys, owners(torch.from_numpy(keys), WORKERS).tolist(), strict=True):
            owned[owner].add(int(key))
            if owner != rank:
                loads[0, 0, rank] += 1
                loads[0, 1, owner] += 1
    for rank, sums in enumerate(owned):
        for other in set(range(WORKERS)) - {rank}:
            loads[1, 0, rank] += len(sums)
            loads[1, 1, other] += len(sums)
    assert pushed.balanced_bytes() == sum(int(step.max()) for step in loads) * (4 + 16)


def test_the_union_goes_once_down_every_link(pushed: Round) -> None:
    union = set().union(*(set(keys.tolist()) for keys in pushed.keys))
    values = len(union) * pushed.dim * 4
    assert values < pushed.wiresum(payload_bytes=1408).bytes < 1.2 * values + 3000


def test_the_report_has_each_methods_own_limit(pushed: Round) -> None:
    options = Options(workers=WORKERS, rate_bps=1e6)
    measured = {
        "seconds": {"wiresum": [0.5, 0.4, 0.6], "gloo": [1.0], "balanced": [2.0]},
        "errors": {"wiresum": 0.0, "gloo": 0.0, "balanced": 0.0},
        "notes": ["a note"],
    }
    report = benchmark.to_report(options, pushed, 1408, measured, shaped=True).to_json()
    ratios = {ratio["name"]: ratio["value"] for ratio in report["ratios"]}
    assert ratios["gloo / wiresum"] == pytest.approx(2)
    for result in report["results"]:
        assert result["limit_s"] == pytest.approx(result["link_bytes"] * 8 / 1e6)
        assert ratios[f"{result['name']} / its limit"] == pytest.approx(result["median"] / result["limit_s"])


def test_tables_of_several_dimensions_are_no_one_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = benchmark.parse("criteo:scale=0.001,batch=2")
    first, *others = trace.tables.tables
    wider = first.model_copy(update={"dimension": 99})
    trace.adopt(trace.tables.model_copy(update={"tables": [wider, *others]}))
    monkeypatch.setattr(benchmark, "parse", lambda _: trace)
    with pytest.raises(TraceError, match="2 dimensions"):
        benchmark.first_round(Options())
