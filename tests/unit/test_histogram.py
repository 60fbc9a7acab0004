from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.chunk import Chunk
from skewless.errors import DataError
from skewless.histogram import Histogram, bucket_count, bucket_of, representatives
from tests.oracles.hashing import mix, spread

SMALL = os.environ.get("NUMBA_DISABLE_JIT") == "1"
counts = st.dictionaries(st.integers(0, 2**64 - 1), st.integers(0, 500), max_size=40)


def test_keys_are_ordered_by_weight_then_hash():
    histogram = Histogram([9, 2**64 - 1, 5, 1], [10, 30, 10, 10])
    assert histogram.keys.tolist() == [2**64 - 1, 1, 5, 9]
    assert histogram.counts.tolist() == [30, 10, 10, 10]


def test_all_sources_give_the_same_histogram():
    keys = [4, 4, 8, 4, 2**64 - 1]
    expected = [(4, 3), (8, 1), (2**64 - 1, 1)]
    sources = [np.array(keys, np.uint64), Chunk(None, np.array(keys, np.uint64)), dict(expected)]
    for source in sources:
        assert isinstance(source, (np.ndarray, Chunk, dict))
        histogram = Histogram.of(source)
        assert (
            list(zip(histogram.keys.tolist(), histogram.counts.tolist(), strict=True)) == expected
        )
    assert Histogram.of(histogram) is histogram


@pytest.mark.jit_modes
@settings(max_examples=10 if SMALL else 50, deadline=None, derandomize=True)
@given(counts, st.integers(0, 50), st.integers(1, 16), st.integers(0, 5))
def test_top_keeps_the_heaviest_and_all_the_weight(weights, n_keys, n_buckets, seed):
    top = Histogram.of(weights).top(n_keys, n_buckets, seed=seed)
    ranked = sorted(weights, key=lambda key: (-weights[key], key))
    tail = [0] * n_buckets
    for key in ranked[n_keys:]:
        tail[spread(mix(key, seed), n_buckets)] += weights[key]
    assert top.keys.tolist() == ranked[:n_keys]
    assert top.tail is not None
    assert top.tail.tolist() == tail
    assert top.total == sum(weights.values())
    again = top.top(n_keys // 2, n_buckets)
    assert again.total == top.total
    assert again.keys.tolist() == ranked[: n_keys // 2]


@pytest.mark.jit_modes
@settings(max_examples=10 if SMALL else 50, deadline=None, derandomize=True)
@given(counts, st.integers(0, 300))
def test_interleaving_keeps_the_proportions(weights, n_tuples):
    histogram = Histogram.of(weights)
    sample = histogram.interleaved(n_tuples)
    length = min(n_tuples, histogram.total)
    assert len(sample) == length
    if length == 0:
        return
    running = 0
    played = dict.fromkeys(weights, 0) | dict(
        zip(*(column.tolist() for column in np.unique(sample, return_counts=True)), strict=True)
    )
    for key in histogram.keys.tolist():
        exact = weights[key] * length / histogram.total
        running += played[key] - exact
        assert abs(played[key] - exact) <= 1
        assert abs(running) <= 0.5 + 1e-6  # the running total is rounded, so nothing adds up


def test_interleaving_spaces_a_key_evenly():
    sample = Histogram([1, 2, 3], [5000, 3000, 2000]).interleaved(1000)
    for key, gap in ((1, 2), (2, 10 / 3), (3, 5)):
        gaps = np.diff(np.flatnonzero(sample == key))
        assert np.abs(gaps - gap).max() < 3
    for part in np.split(sample, 10):
        assert np.abs(np.unique(part, return_counts=True)[1] - [50, 30, 20]).max() <= 2


def test_interleaving_plays_the_tail_by_representatives():
    histogram = Histogram([7], [60], [0, 30, 0, 10], seed=3)
    keys, times = np.unique(histogram.interleaved(100), return_counts=True)
    played = dict(zip(keys.tolist(), times.tolist(), strict=True))
    players = representatives(4, 3)
    assert played == {7: 60, int(players[1]): 30, int(players[3]): 10}


@pytest.mark.jit_modes
@pytest.mark.parametrize(("n_buckets", "seed"), [(1, 0), (7, 0), (64, 9)])
def test_representatives_fall_into_their_buckets(n_buckets, seed):
    players = representatives(n_buckets, seed)
    assert bucket_of(players, n_buckets, seed).tolist() == list(range(n_buckets))
    for bucket, player in enumerate(players.tolist()):
        smaller = [k for k in range(1, player) if spread(mix(k, seed), n_buckets) == bucket]
        assert smaller == []


@pytest.mark.parametrize("n_workers", [1, 2, 3, 60, 64, 127, 128, 129, 1000, 4096])
def test_buckets_are_a_multiple_of_the_workers(n_workers):
    n_buckets = bucket_count(n_workers)
    assert n_buckets % n_workers == 0
    assert n_buckets >= max(2048, 16 * n_workers)
    assert n_buckets < max(2048, 16 * n_workers) + n_workers


def test_an_empty_histogram_has_no_weight():
    assert (len(Histogram([], [])), Histogram([], []).total) == (0, 0)
    tail = Histogram.of([]).top(4, 8).tail
    assert tail is not None
    assert tail.tolist() == [0] * 8
    assert len(Histogram([], []).interleaved(10)) == 0


BAD = [
    ("lengths differ", lambda: Histogram([1, 2], [1]), "of length 1 for 2 keys"),
    ("counts are fractions", lambda: Histogram([1], [0.5]), "got float64"),
    ("counts are negative", lambda: Histogram([1, 2], [3, -4]), "got -4"),
    ("a key is listed twice", lambda: Histogram([1, 1], [3, 4]), "listed twice"),
    ("keys are text", lambda: Histogram(["a"], [1]), "hash64"),
    ("other buckets", lambda: Histogram([], [], [1, 2]).top(1, 4), "2 buckets with seed 0"),
    ("another seed", lambda: Histogram([], [], [1, 2]).top(1, 2, seed=1), "with seed 1"),
]


@pytest.mark.parametrize(("call", "words"), [r[1:] for r in BAD], ids=[r[0] for r in BAD])
def test_bad_histograms_are_refused(call, words):
    with pytest.raises(DataError, match=words):
        call()


def test_adding_a_scaled_histogram_keeps_the_total() -> None:
    rng = np.random.default_rng(3)
    old = Histogram(
        np.arange(1, 50, dtype=np.uint64), rng.integers(0, 90, 49), rng.integers(0, 4, 2048)
    )
    new = Histogram(
        np.arange(30, 60, dtype=np.uint64), rng.integers(0, 9, 30), rng.integers(0, 4, 2048)
    )
    for scale in (0.0, 0.3, 0.999, 1.0):
        both = new.plus(old, scale)
        assert abs(both.total - new.total - scale * old.total) <= 1
    assert new.plus(old).counts.sum() == new.counts.sum() + old.counts.sum()


def test_tails_of_other_buckets_are_refused() -> None:
    with pytest.raises(DataError, match="a tail of 4 buckets with seed 0 cannot be added"):
        Histogram([1], [1], [0] * 4).plus(Histogram([1], [1], [0] * 5))
