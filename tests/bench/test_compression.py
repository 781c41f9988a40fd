"""A tiny run of `wiresum bench compression`: each way to train moves the bytes that it is named for."""

import pytest

from wiresum.bench.compression.measure import CASES, Options, measure


@pytest.mark.usefixtures("namespaces")
def test_bits_are_what_travels():
    report = measure(Options(workers=2, rate_bps=1e9, max_steps=3, repeats=1, engine="udp"))
    median = {result.name: result.median for result in report.results}
    assert len(median) == 4 * len(CASES)
    whole, half, quarter = (
        median[f"wiresum, {bits}: bytes on the busiest link"] for bits in ("32 bits", "16 bits", "8 bits")
    )
    # What is sent in any case is small: the parameters at the start, buffers, times.
    assert whole / half == pytest.approx(2, rel=0.25)
    assert whole / quarter == pytest.approx(4, rel=0.4)
    assert {ratio.name for ratio in report.ratios} == {
        "images: wiresum, 8 bits / gloo, 32 bits",
        "all-reduce of the gradient: wiresum, 16 bits / wiresum, 8 bits",
        "all-reduce of the gradient: gloo, 16 bits / wiresum, 8 bits",
        "all-reduce of the gradient: gloo, 32 bits / wiresum, 8 bits",
    }
