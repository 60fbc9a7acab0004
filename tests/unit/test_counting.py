"""Counting keys: exact while memory lasts, and within the stated error after."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.commands.counting import KeyCounter
from skewless.datasets import uniform, zipf
from skewless.errors import ParameterError
from skewless.histogram import bucket_of

streams = st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=20))


def counted(batches, **kind):
    counter = KeyCounter(8, **kind)
    for batch in batches:
        keys = np.array([k for k, _ in batch], np.uint64)
        counter.add(keys, np.array([w for _, w in batch], np.int64))
    return counter


@settings(deadline=None)
@given(streams)
def test_weights_of_batches_add_up_to_the_weights_of_keys(batches):
    expected = Counter()
    for key, weight in (pair for batch in batches for pair in batch):
        expected[key] += weight
    counter = counted(batches)
    found = counter.histogram()
    assert dict(zip(found.keys.tolist(), found.counts.tolist(), strict=True)) == dict(expected)
    assert counter.rows == sum(map(len, batches))
    assert counter.distinct == len(expected)
    assert (counter.exact, counter.error) == (True, 0.0)


@settings(deadline=None)
@given(streams, st.integers(2, 6))
def test_with_little_memory_nothing_is_lost_and_no_key_is_off_by_more_than_the_error(batches, most):
    counter = KeyCounter(8, max_keys=most)
    expected = Counter()
    for batch in batches:
        keys = np.array([k for k, _ in batch], np.uint64)
        counter.add(keys, np.array([w for _, w in batch], np.int64))
        counter.histogram()  # folds now, and not only when a million keys wait
        for key, weight in batch:
            expected[key] += weight
    found = counter.histogram()
    assert found.total == sum(expected.values())
    assert len(found) <= most
    listed = dict(zip(found.keys.tolist(), found.counts.tolist(), strict=True))
    for key, weight in expected.items():
        assert 0 <= weight - listed.get(key, 0) <= counter.error
    in_bucket = np.zeros(8, np.int64)
    for key, weight in expected.items():
        in_bucket[bucket_of([key], 8)[0]] += weight - listed.get(key, 0)
    assert (np.zeros(8) if found.tail is None else found.tail).tolist() == in_bucket.tolist()


def test_a_part_names_the_first_row_of_each_key():
    part = KeyCounter(8).add(np.array([9, 3, 9, 3, 1], np.uint64), np.array([1, 2, 3, 4, 5]))
    assert part.keys.tolist() == [1, 3, 9]
    assert part.weights.tolist() == [5, 6, 4]
    assert part.first.tolist() == [4, 1, 0]


def test_many_keys_are_merged_in_bulk_and_heavy_ones_stay_exact_enough():
    keys = np.concatenate((zipf(1_500_000, 2_000_000, 1.0, seed=1), uniform(1_500_000, 10**9)))
    counter = KeyCounter(64, max_keys=200_000)
    for part in np.split(keys, 30):
        counter.add(part)
    found = counter.histogram()
    assert not counter.exact
    real, counts = np.unique(keys, return_counts=True)
    top = np.argsort(-counts)[:20]
    assert set(found.keys[:20].tolist()) == set(real[top].tolist())
    assert np.abs(found.counts[:20] - np.sort(counts)[::-1][:20]).max() <= counter.error < 50
    assert counter.distinct == pytest.approx(len(real), rel=0.06)


def test_fractions_are_counted_in_equal_parts_of_the_whole():
    counter = KeyCounter(8)
    counter.add(np.array([1, 2, 1], np.uint64), np.array([0.25, 0.5, 0.25]))
    found = counter.histogram()
    assert found.counts[0] == found.counts[1]
    assert found.total == pytest.approx(2**40, rel=1e-9)


def test_growth_tells_whether_new_keys_keep_coming():
    steady, growing = KeyCounter(8), KeyCounter(8)
    for i in range(20):
        steady.add(np.arange(100, dtype=np.uint64))
        growing.add(np.arange(100 * i, 100 * (i + 1), dtype=np.uint64))
    assert steady.growth == pytest.approx(0.0, abs=1e-9)
    assert growing.growth == pytest.approx(1.0, abs=0.15)
    assert KeyCounter(8).growth == 0.0


def test_nothing_counted_is_an_empty_histogram():
    counter = KeyCounter(8)
    counter.add(np.empty(0, np.uint64))
    assert (len(counter.histogram()), counter.distinct, counter.rows) == (0, 0, 0)


def test_bad_parameters_are_named():
    with pytest.raises(ParameterError, match="KeyCounter: max_keys must be an int of at least 2"):
        KeyCounter(8, max_keys=1)
    with pytest.raises(ParameterError, match="n_buckets must be an int of at least 1, got 0"):
        KeyCounter(0)
