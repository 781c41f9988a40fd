"""XAgg's motivating example: the paper's times in theory, and a tiny run."""

from __future__ import annotations

from pathlib import Path

import pytest

from wiresum.bench.heterogeneity import measure as heterogeneity
from wiresum.bench.heterogeneity.measure import METHODS, Options, in_theory, predicted_rates
from wiresum.bench.heterogeneity.plot import draw
from wiresum.errors import PlanError
from wiresum.topology.generators import TOPOLOGIES

FIG_1 = Options(rate_bps=10e9, slow_rate_bps=5e9, late_s=2.0, size_bytes=1_250_000_000)


@pytest.mark.parametrize(("method", "seconds"), [("ps", 4.0), ("pool", 4.0), ("xagg", 3.0)])
def test_the_papers_times(method: str, seconds: float) -> None:
    assert in_theory(METHODS[method], FIG_1) == pytest.approx(seconds)
    assert in_theory(METHODS[method], Options()) == pytest.approx(seconds), "at 1:100"


def test_results_on_the_same_links_take_longer() -> None:
    both = Options(both_ways=True)
    assert in_theory(METHODS["xagg"], both) > in_theory(METHODS["xagg"], Options())


def test_a_method_that_is_not_there() -> None:
    with pytest.raises(PlanError, match=f"choose from {', '.join(METHODS)}"):
        heterogeneity.measure(Options(methods=("magic",)))


def test_only_ways_up_are_limited() -> None:
    network = TOPOLOGIES["stragglers"]()
    for link in network.links:
        up = link.other_end("fabric")
        is_worker = network.node(up).kind == "worker"
        assert (link.bandwidth_from(up) is not None) == is_worker
        assert (link.bandwidth_from("fabric") is None) == is_worker


@pytest.mark.needs("xdp")
@pytest.mark.parametrize("method", METHODS)
def test_a_tiny_run(method: str, tmp_path: Path) -> None:
    # Rates are read every 50 ms: a busy machine may miss most readings of a second, but not all.
    options = Options(size_bytes=1_000_000, late_s=1.0, methods=(method,), repeats=1, rates=True)
    report = heterogeneity.measure(options)
    (result,) = report.results
    assert result.extra["largest_deviation_from_gloo"] < 1e-5
    assert result.runs[0] > options.late_s, "nobody has the sum before the last worker has come"
    sent = {host: sum(rate for _, rate in points) for host, points in result.extra["measured_bps"].items()}
    assert set(sent) == set(result.extra["predicted_bps"]) == {"W1", "W2", "W3", "W4"}
    assert all(total > 0 for total in sent.values()), "every worker was seen to send"
    draw(report, tmp_path / "rates.png")
    assert (tmp_path / "rates.png").stat().st_size > 0


def test_predicted_rates_are_the_papers() -> None:
    """§II-A: W3 alone has the whole link at the end."""
    spans = predicted_rates(METHODS["ps"], FIG_1)
    assert spans["W1"] == [pytest.approx((0.0, 2.0, 10e9 / 3)), pytest.approx((2.0, 10 / 3, 2.5e9))]
    assert spans["W3"] == [pytest.approx((2.0, 10 / 3, 2.5e9)), pytest.approx((10 / 3, 4.0, 10e9))]
