from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.errors import DataError, ParameterError
from skewless.sketches import SpaceSaving
from tests.oracles.space_saving import SpaceSaving as Oracle

EXAMPLES = settings(max_examples=40, deadline=None, derandomize=True)
keys = st.lists(st.integers(0, 12) | st.integers(0, 2**64 - 1), max_size=120)
weighted = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 30)), max_size=120)
capacities = st.sampled_from([1, 2, 3, 8, 50])


def column(values):
    return np.array(values, np.uint64)


def made(capacity, stream, seed=0):
    sketch = SpaceSaving(capacity, seed=seed)
    sketch.update(column(stream))
    return sketch


def assert_bounds(sketch, exact):
    top = sketch.top()
    for key, count, error in zip(*(part.tolist() for part in top), strict=True):
        assert count - error <= exact[key] <= count
    assert sketch.least * sketch.capacity <= sketch.total
    rest = [key for key in exact if key not in set(top.key.tolist())]
    assert all(exact[key] <= sketch.least for key in rest)
    asked = column(list(exact))
    assert (sketch.estimate(asked) >= [exact[key] for key in asked.tolist()]).all()


@pytest.mark.jit_modes
@EXAMPLES
@given(capacities, keys, st.integers(0, 120))
def test_the_slots_equal_the_oracle_whatever_the_chunks_and_after_pickling(capacity, stream, cut):
    oracle = Oracle(capacity)
    for key in stream:
        oracle.update(key)
    sketch = made(capacity, stream[:cut], seed=5)
    sketch = pickle.loads(pickle.dumps(sketch))  # noqa: S301 (our own bytes)
    sketch.update(column(stream[cut:]))
    top = sketch.top()
    assert list(zip(*(part.tolist() for part in top), strict=True)) == oracle.top()
    slots = [(key, count) for key, count, _ in oracle.slots]
    used = len(slots)
    state = sketch.state
    assert list(zip(state.key[:used].tolist(), state.counts[:used].tolist(), strict=True)) == slots


@EXAMPLES
@given(capacities, keys)
def test_count_minus_error_is_at_most_the_truth_and_count_at_least(capacity, stream):
    sketch = made(capacity, stream)
    assert_bounds(sketch, Counter(stream))
    assert sketch.total == len(stream)


@EXAMPLES
@given(capacities, weighted)
def test_weights_count_as_so_many_keys(capacity, stream):
    oracle, exact = Oracle(capacity), Counter()
    for key, weight in stream:
        oracle.update(key, weight)
        exact[key] += weight
    sketch = SpaceSaving(capacity)
    sketch.update(column([key for key, _ in stream]), [weight for _, weight in stream])
    assert list(zip(*(part.tolist() for part in sketch.top()), strict=True)) == oracle.top()
    assert_bounds(sketch, exact)


@EXAMPLES
@given(capacities, keys, keys, keys)
def test_a_merged_sketch_keeps_the_bounds_and_goes_on(capacity, first, second, later):
    one, other = made(capacity, first), made(capacity, second)
    a, b = Oracle(capacity), Oracle(capacity)
    for oracle, stream in ((a, first), (b, second)):
        for key in stream:
            oracle.update(key)
    one.merge(other)
    a.merge(b)
    assert list(zip(*(part.tolist() for part in one.top()), strict=True)) == a.top()
    assert_bounds(one, Counter(first + second))
    one.update(column(later))
    for key in later:
        a.update(key)
    assert list(zip(*(part.tolist() for part in one.top()), strict=True)) == a.top()
    assert_bounds(one, Counter(first + second + later))


def test_every_key_above_one_share_in_the_capacity_is_found():
    stream = np.random.default_rng(1).zipf(1.5, 50_000).astype(np.uint64)
    sketch = made(100, stream)
    exact = Counter(stream.tolist())
    heavy = {key for key, count in exact.items() if count > 500}
    assert heavy
    assert heavy <= set(sketch.top().key.tolist())


def test_the_state_does_not_grow():
    sketch = SpaceSaving(100)
    before = sketch.state_bytes
    sketch.update(np.arange(100_000, dtype=np.uint64))
    assert sketch.state_bytes == before <= 100 * 48


def test_input_is_only_read_and_may_be_signed_or_empty():
    stream = np.array([-1, 5, -1])
    stream.flags.writeable = False
    sketch = SpaceSaving(4)
    sketch.update(stream)
    sketch.update([])
    sketch.update([], [])
    assert sketch.top(1).key.tolist() == [2**64 - 1]


@pytest.mark.parametrize("capacity", [0, -1, 2.5, True, None, 2**30 + 1])
def test_a_bad_capacity_is_named(capacity):
    with pytest.raises(ParameterError, match=r"^SpaceSaving: capacity must be an int in \[1, "):
        SpaceSaving(capacity)


def test_bad_input_is_named():
    sketch = SpaceSaving(4)
    with pytest.raises(DataError, match="SpaceSaving: keys must be one column of uint64 or int64"):
        sketch.update([0.5])
    with pytest.raises(DataError, match="SpaceSaving: weights must be one integer per key"):
        sketch.update([1, 2], [1])
    with pytest.raises(DataError, match="SpaceSaving: weights must be at least 0, got -3"):
        sketch.update([1, 2], [1, -3])
    with pytest.raises(
        ParameterError, match="SpaceSaving: other must have the same capacity, 4, got 5"
    ):
        sketch.merge(SpaceSaving(5))
    with pytest.raises(ParameterError, match="SpaceSaving: other must be a SpaceSaving, got int"):
        sketch.merge(3)
