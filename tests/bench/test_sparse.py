"""One tiny run of `wiresum bench sparse`, over loopback or namespaces, whatever is there."""

from __future__ import annotations

from wiresum.bench.sparse.command import Options
from wiresum.bench.sparse.measure import measure
from wiresum.bench.sparse.worker import PRODUCT


def test_a_shard_beside_every_worker_keeps_the_tables():
    options = Options(trace="criteo:scale=0.001,batch=16", workers=3, rate_bps=50e6, rounds=1, beside=True)
    report = measure(options)
    assert (report.parameters["servers"], report.parameters["beside"]) == (3, True)
    assert [result.name for result in report.results] == [PRODUCT, "push_pull"]
    assert all(min(result.runs) > 0 for result in report.results)


def test_every_method_plays_the_same_rounds():
    options = Options(
        trace="criteo:scale=0.001,batch=16",
        workers=2,
        servers=2,
        rate_bps=50e6,
        rounds=2,
        against=("push_pull", "zebra", "pool"),
        engine="udp",
    )
    report = measure(options)
    assert [result.name for result in report.results] == [PRODUCT, "push_pull", "zebra", "pool"]
    for result in report.results:
        assert len(result.runs) == len(report.parameters["rows_pushed"]) == 2
        assert min(result.runs) > 0
        assert result.extra["predicted"] > 0
    assert [ratio.name for ratio in report.ratios][:3] == [f"wiresum / {name}" for name in options.against]
    assert any("values were summed" in note for note in report.notes), "what of the tables was summed is said"
