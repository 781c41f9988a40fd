"""Traces: the same samples however they are drawn, and the popularity that was asked for."""

from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wiresum.errors import TraceError
from wiresum.sparse import FILE_TRACES, TRACES
from wiresum.sparse.criteo import criteo
from wiresum.sparse.places import Changes, Drift, Places
from wiresum.sparse.popularity import HEAD, Piece, Popularity, fitted
from wiresum.sparse.spec import parse
from wiresum.sparse.synthetic import DEEPLIGHT, NCF, OA, SE
from wiresum.sparse.text import text

SPECS = ["criteo:scale=0.001", "zipf:rows=5000,features=7", "zipf:drift=0.01,day=9,swing=0.5", "oa:features=3", "ncf"]


@pytest.fixture(scope="module")
def words():
    return text(batch=64)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(SPECS), st.integers(0, 1 << 40), st.lists(st.integers(1, 30), max_size=5), st.integers(0, 50))
def test_samples_are_the_same_in_whatever_parts_they_are_drawn(spec, first, parts, round):
    trace = parse(spec, seed=7)
    whole = trace.samples(first, sum(parts), round)
    starts = [first, *(first + done for done in accumulate(parts))]
    drawn = [trace.samples(begin, end - begin, round) for begin, end in pairwise(starts)]
    assert (np.concatenate([whole[:0], *drawn]) == whole).all()
    assert whole.shape == (sum(parts), trace.lookups)
    assert ((whole >= 0) & (whole < trace.rows)).all()


@pytest.mark.parametrize("spec", SPECS)
def test_a_seed_makes_a_trace(spec):
    one, again, other = parse(spec, seed=1), parse(spec, seed=1), parse(spec, seed=2)
    assert (one.batch_of(3, 2, 8) == again.batch_of(3, 2, 8)).all()
    assert (one.batch_of(3, 2, 8) != other.batch_of(3, 2, 8)).any()


@pytest.mark.parametrize("spec", SPECS)
def test_workers_take_samples_in_turn_and_push_what_is_distinct(spec, monkeypatch):
    trace = parse(spec)
    together = np.concatenate([trace.batch_of(2, worker, 4) for worker in range(4)])
    assert (together == trace.samples(2 * 4 * trace.batch, 4 * trace.batch, 2)).all()
    pushed = trace.pushed(2, 3, 4)
    assert (pushed == np.unique(trace.batch_of(2, 3, 4))).all()
    monkeypatch.setattr("wiresum.sparse.trace.LOOKUPS_AT_ONCE", 100)
    assert (trace.pushed(2, 3, 4) == pushed).all(), "in many parts"


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("round", [0, 1, 20])
def test_ranks_and_keys_are_two_ways_of_the_same(spec, round):
    trace = parse(spec)
    top = trace.top(3000, round)
    assert len(np.unique(top)) == 3000
    assert (trace.ranks(top, round) == np.arange(3000)).all()


def test_ranks_of_several_tables_are_those_of_all_rows_together():
    trace = criteo(scale=0.0005)
    ranks = trace.ranks(np.arange(trace.rows))
    assert (np.sort(ranks) == np.arange(trace.rows)).all()
    assert (trace.top(trace.rows)[ranks] == np.arange(trace.rows)).all()


def test_text_is_shuffled_by_seed_and_repeats(words):
    count = len(words.samples(0, 1)) and words._keys.shape[0]
    assert count > 1_000_000
    assert (words.samples(5, 10) == words.samples(5 + count, 10)).all()
    other = text(batch=64, seed=1)
    assert (np.bincount(words._keys.ravel()) == np.bincount(other._keys.ravel(), minlength=words.rows)).mean() > 0.99
    assert (words.samples(0, 1000) != other.samples(0, 1000)).any()
    touches = np.sort(np.bincount(words._keys.ravel()))[::-1]
    assert touches[: words.rows // 100].sum() > 0.8 * touches.sum(), "the top 1 % are most of the text"
    assert (words.ranks(words.top(100)) == np.arange(100)).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 400_000), st.floats(0, 2.5))
def test_the_head_of_a_power_law_is_exact(rows, exponent):
    law = Popularity.zipf(rows, exponent)
    exact = np.arange(1, rows + 1) ** -exponent
    exact /= exact.sum()
    assert np.allclose(law.chance(np.arange(rows)), exact, rtol=1e-9)
    assert np.allclose(law.share(np.array([0, rows // 2, rows])), [0, exact[: rows // 2].sum(), 1], atol=1e-9)


def test_the_tail_is_drawn_as_often_as_its_chance_says():
    law = Popularity.zipf(4 * HEAD, 0.5)
    ranks = law.draw((np.arange(1_000_000) + 0.5) / 1_000_000)
    assert (np.diff(ranks) >= 0).all()
    for begin, end in pairwise([0, 10, 1000, HEAD, HEAD + 1000, 2 * HEAD, 4 * HEAD]):
        drawn = ((ranks >= begin) & (ranks < end)).mean()
        assert drawn == pytest.approx(float(np.diff(law.share(np.array([begin, end])))[0]), abs=2e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 1000), st.floats(0.1, 2), st.integers(0, 999))
def test_above_counts_the_more_popular(rows, exponent, rank):
    law = Popularity.zipf(rows, exponent)
    chance = law.chance(np.array([rank % rows]))
    assert law.above(chance, or_equal=False)[0] == (law.chance(np.arange(rows)) > chance).sum()
    assert law.above(chance, or_equal=True)[0] == (law.chance(np.arange(rows)) >= chance).sum()


@pytest.mark.parametrize(("model", "share"), [(OA, 0.5), (SE, 0.7), (DEEPLIGHT, 0.4)])
def test_exponents_are_those_of_the_paper_s_figure(model, share):
    rows, exponent = model
    assert fitted(rows, 30_000, share) == pytest.approx(exponent, abs=6e-4)


def test_ncf_has_two_pieces_and_its_chances_never_grow():
    law = Popularity(NCF)
    assert law.share(np.array([100, 5000])) == pytest.approx([0.40, 0.52], abs=1e-4)
    assert (np.diff(law.chance(np.arange(law.rows))) <= 0).all()
    assert Popularity([Piece(10, 1.0, 1.0)]).chance(np.arange(10)) == pytest.approx(
        Popularity.zipf(10, 1.0).chance(np.arange(10))
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 10_000), st.integers(0, 100), st.integers(0, 40))
def test_places_are_a_permutation_in_every_round(rows, seed, round):
    drift = Drift(rows, Changes(0.1, rows // 2, 10, 0.5), seed) if rows > 1 else None
    places = Places(rows, seed, drift)
    ranks = np.arange(rows)
    found = places.rows(ranks, round)
    assert (np.sort(found) == ranks).all()
    assert (places.ranks(found, round) == ranks).all()


def test_drift_replaces_as_many_of_the_top_ranks_as_it_says_and_evenings_pass():
    drift = Drift(1_000_000, Changes(0.0002), seed=3)
    top = np.arange(20_000)
    changed = [(drift.items(top, round) != top).sum() for round in (0, 1, 100)]
    assert changed[:2] == [0, 4]
    assert 250 < changed[2] <= 400, "some ranks are replaced twice"
    assert (drift.items(top, 1) != top).sum() == 4, "back to an earlier round"
    day = Drift(1_000_000, Changes(day=24, swing=0.25), seed=3)
    assert [(day.items(top, round) != top).sum() for round in (0, 12, 24)] == [0, 5000, 0]


@pytest.mark.parametrize("seed", range(3))
def test_clicks_can_be_learned(seed):
    trace = criteo(scale=0.01, seed=seed)
    labels, logits = trace.labels(0, 20_000), trace.logits(0, 20_000)
    assert 0.2 < labels.mean() < 0.3, "a quarter"
    ranks = np.empty(len(logits))
    ranks[np.argsort(logits)] = np.arange(len(logits))
    clicks = labels == 1
    auc = (ranks[clicks].mean() - (clicks.sum() - 1) / 2) / (~clicks).sum()
    assert auc > 0.75, "of the planted model itself"
    assert (np.concatenate([trace.labels(0, 7), trace.labels(7, 5)]) == labels[:12]).all()
    assert trace.numbers(0, 1000).std() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("criteo:scale=2", "scale: 2 is not a number from 1e-06 to 1"),
        ("criteo:batch=", "batch: nothing is not a whole number"),
        ("zipf:rows=1.5", "rows: 1.5 is not a whole number"),
        ("zipf:s=nan", "s: nan is not a number"),
        ("zipf:colour=3", "colour: the trace zipf has no such field; it has rows, s"),
        ("zipf:s=1,s=2", "s: is given twice"),
        ("zipf:rows=100,drift=0.1", "top: 20000 of 100 ranks cannot change"),
        ("bags", "there is no trace bags; choose from criteo"),
        ("movielens", "movielens: is read from a file; give its folder with --data-dir"),
    ],
)
def test_a_bad_description_names_the_field(spec, said):
    with pytest.raises(TraceError) as refused:
        parse(spec)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize("table", [TRACES, FILE_TRACES])
def test_what_a_table_names_is_there(table):
    assert all(callable(table[name]) for name in table)
