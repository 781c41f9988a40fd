"""What is counted of a trace, against sets of keys; and profiles, against the definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wiresum.predict.forms import Form
from wiresum.sparse.counts import Counts, formula
from wiresum.sparse.frequencies import Frequencies
from wiresum.sparse.profile import kendall, precision, profile
from wiresum.sparse.spec import parse


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 99), st.integers(0, 400), st.booleans())
def test_counts_are_those_of_sets(workers, rounds, seed, hot, learned):
    trace = parse("zipf:rows=300,features=5,batch=8", seed=seed)
    ranking = Frequencies.of(trace, workers, 2, first_round=50) if learned else trace
    counts = Counts.of(trace, workers, rounds, ranking=ranking)
    pushed = [[set(trace.pushed(r, w, workers).tolist()) for w in range(workers)] for r in range(rounds)]
    hottest = {key for key in range(300) if ranking.ranks(np.array([key]))[0] < hot}
    mean = lambda values: sum(values) / len(values)  # noqa: E731
    assert counts.pushed == pytest.approx(mean([len(one) for of_round in pushed for one in of_round]))
    assert counts.union == pytest.approx(mean([len(set().union(*of_round)) for of_round in pushed]))
    found = counts.hot(hot)
    assert found.share * counts.pushed == pytest.approx(
        mean([len(one & hottest) for of_round in pushed for one in of_round])
    )
    assert found.distinct == pytest.approx(mean([len(set().union(*of_round) & hottest) for of_round in pushed]))
    taken = [sum(len(one - hottest) for one in r) + len(set().union(*r) & hottest) for r in pushed]
    assert found.server_rows == pytest.approx(mean(taken)), "N · U · (1 − h) + G_hot"
    assert found.gain <= found.formula + 1e-9, "the formula is an upper bound"


def test_groups_of_workers_touch_more_rows_the_larger_they_are():
    counts = Counts.of(parse("criteo:scale=0.001,batch=32"), 8, 2)
    touched = [counts.rows_up_to(together)[-1] for together in (1, 2, 4, 8)]
    assert touched == sorted(touched)
    assert counts.bytes_up_to(1, Form(4).bytes_of)[-1] == pytest.approx(counts.pushed * 68)
    place = counts.place(100)
    assert counts.ranks_up_to(place) <= 100
    assert counts.ranks_up_to(0) == 0


def test_the_bench_trace_has_the_figures_that_the_design_rests_on():
    """32 workers, a tenth of Criteo's rows: U = 3,426, G = 41,100; h = 0.77 for rows learned in six rounds."""
    trace = parse("criteo:scale=0.1,batch=512", seed=1)
    truth = Counts.of(trace, 32, 2, first_round=6)
    assert truth.pushed == pytest.approx(3426, rel=0.01)
    assert truth.union == pytest.approx(41_100, rel=0.01)
    learned = Counts.of(trace, 32, 2, first_round=6, ranking=Frequencies.of(trace, 32, 6)).hot(30_000)
    assert learned.share == pytest.approx(0.77, abs=0.01)
    assert learned.formula == pytest.approx(3.93, rel=0.03)
    assert truth.hot(30_000).share == pytest.approx(0.785, abs=0.01), "of the rows that are the most popular in truth"


def test_the_formula_is_zebras():
    shares = {0.4: 1.63, 0.5: 1.94, 0.7: 3.11, 0.75: 3.66}
    assert {h: round(formula(h, 32), 2) for h in shares} == shares


def test_frequencies_count_once_for_each_worker_and_round(monkeypatch):
    trace = parse("zipf:rows=50,features=3,batch=4")
    monkeypatch.setattr("wiresum.sparse.frequencies.MERGED_AT", 10)
    counted = Frequencies.of(trace, 3, 5)
    pushed = np.concatenate([trace.pushed(r, w, 3) for r in range(5) for w in range(3)])
    assert dict(zip(counted.keys.tolist(), counted.updates.tolist(), strict=True)) == {
        int(key): int((pushed == key).sum()) for key in np.unique(pushed)
    }
    assert (np.diff(counted.updates) <= 0).all()
    every = Frequencies.of(trace, 3, 5, merged=False)
    assert every.updates.sum() == 3 * 5 * 4 * 3, "each lookup of each sample"
    ranks = counted.ranks(np.arange(50))
    assert (np.sort(ranks) == np.arange(50)).all()
    assert (ranks[counted.keys] == np.arange(len(counted.keys))).all()


def test_a_sampled_run_has_the_share_of_samples_that_was_asked_for():
    trace = parse("zipf:rows=100000,s=0,features=1,batch=100")
    some = Frequencies.of(trace, 4, 50, sampling=0.1)
    assert some.updates.sum() == pytest.approx(2000, rel=0.1)


def test_the_knee_follows_its_definition():
    counted = Frequencies(np.arange(6), np.array([50, 30, 10, 5, 4, 1]))
    assert counted.share(2) == pytest.approx(0.8)
    assert counted.knee(step=2, threshold=0.1) == 4, "the last two bring 5 of 100"
    assert counted.knee(step=1, threshold=0.0) == 6


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30))
def test_kendalls_tau_is_that_of_all_pairs(pairs):
    first, second = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    signs = [
        (np.sign(first[i] - first[j]), np.sign(second[i] - second[j]))
        for i in range(len(pairs))
        for j in range(i)
    ]  # fmt: skip
    norm = np.sqrt(float(sum(x != 0 for x, _ in signs)) * sum(y != 0 for _, y in signs))
    assert kendall(first, second) == pytest.approx(sum(x * y for x, y in signs) / norm if norm else 0.0)


def test_a_profile_says_what_its_parts_say():
    found = profile(parse("zipf:rows=20000,s=1.2,features=20"), 4, 20, (0.2, 1.0), hot=500)
    assert found.shares[100] < found.shares[1_000] < found.shares[10_000] <= 1
    assert found.curve[-1] == (found.seen, pytest.approx(1))
    some, all_ = found.sampled
    assert (all_.precision, all_.top_precision, all_.tau) == pytest.approx((1, 1, 1))
    assert 0.5 < some.top_precision < 1
    assert 0 < some.tau < 1
    assert precision(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)) == 0
