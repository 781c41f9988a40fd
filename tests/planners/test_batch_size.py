import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiresum.planners.ingo.batch_size import (
    BatchTiming,
    best_batch_size,
    fit,
    noise_scale,
    scaled_learning_rate,
)

seconds = st.floats(1e-5, 1.0)


@given(seconds, seconds, seconds)
def test_the_search_finds_the_closed_form(per_sample, fixed, communication):
    """b* = (o + M/f)/c of one kind of worker, clamped."""
    timing, wanted = BatchTiming(per_sample, fixed), (fixed + communication) / per_sample
    found = best_batch_size([timing], communication)
    assert abs(found - min(256, max(16, wanted))) <= 1
    between = best_batch_size([timing], communication, 1, 10_000)
    assert abs(between - min(10_000, max(1, wanted))) <= 1


@given(st.lists(st.tuples(seconds, seconds), min_size=1, max_size=4), seconds)
def test_the_slowest_worker_counts(workers, communication):
    """No size does better, by the definition."""
    timings = [BatchTiming(*worker) for worker in workers]
    value = lambda b: math.sqrt(b) / (max(t.seconds(b) for t in timings) + communication)  # noqa: E731
    chosen = best_batch_size(timings, communication)
    assert value(chosen) == max(value(size) for size in range(16, 257))


@given(seconds, seconds, st.integers(0, 100))
def test_least_squares_find_a_line_through_noise(per_sample, fixed, seed):
    sizes = np.repeat([16, 32, 64, 128, 256], 200)
    times = per_sample * sizes + fixed
    noise = np.random.default_rng(seed).normal(0, 0.01 * times.mean(), len(sizes))
    found = fit(sizes.tolist(), (times + noise).tolist())
    assert found.seconds(100) == pytest.approx(per_sample * 100 + fixed, rel=0.02)
    exact = fit(sizes.tolist(), times.tolist())
    assert (exact.seconds_per_sample, exact.fixed_seconds) == pytest.approx((per_sample, fixed), rel=1e-6)


def test_lines_that_cannot_be_are_straightened():
    through_origin = fit([16, 32, 64], [0.01, 0.03, 0.07])
    assert through_origin.fixed_seconds == 0.0
    assert through_origin.seconds_per_sample > 0
    assert fit([16, 32], [0.2, 0.1]) == BatchTiming(0.0, pytest.approx(0.15))
    assert best_batch_size([BatchTiming(0.0, 0.1)], 0.1) == 256


def test_what_shows_no_slope_is_refused():
    with pytest.raises(ValueError, match="two sizes or more"):
        fit([16, 16], [0.1, 0.1])
    with pytest.raises(ValueError, match="one of each or more"):
        best_batch_size([], 0.1)


def test_by_the_noise_scale_samples_beyond_it_are_worth_less():
    timing = BatchTiming(0.001, 0.0)
    sizes = [best_batch_size([timing], 0.1, progress=noise_scale(samples)) for samples in (10, 100, 1000)]
    assert sizes == sorted(sizes)
    # d/db of 1 / ((1 + B/b)(c·b + t)) is 0 at b = √(B·t/c).
    assert sizes == [round(math.sqrt(samples * 0.1 / 0.001)) for samples in (10, 100)] + [256]


def test_the_learning_rate_grows_with_the_root():
    assert scaled_learning_rate(0.1, 64, 16) == pytest.approx(0.05)
