"""One tiny run of `wiresum bench sparse`, over loopback or namespaces, whatever is there."""

from __future__ import annotations

from wiresum.bench.sparse.measure import Options, measure
from wiresum.bench.sparse.worker import PRODUCT


def test_every_method_plays_the_same_rounds():
    options = Options(trace="criteo:scale=0.001,batch=16", workers=2, servers=2, rate_bps=50e6, rounds=2)
    report = measure(options)
    assert [result.name for result in report.results] == [PRODUCT, "push_pull"]
    for result in report.results:
        assert len(result.runs) == len(report.parameters["rows_pushed"]) == 2
        assert min(result.runs) > 0
        assert result.extra["predicted"] > 0
    assert report.ratios[0].name == "wiresum / push_pull"
