"""Prompt's micro-batch accumulator against its oracle, and against a sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.accumulator import Accumulator
from skewless.chunk import Chunk
from skewless.datasets import zipf
from skewless.errors import DataError, ParameterError
from tests.oracles.accumulator import accumulate


@pytest.mark.jit_modes
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 12) | st.integers(0, 2**64 - 1))),
    st.integers(1, 200),
    st.integers(1, 20),
    st.integers(1, 6),
    st.integers(1, 40),
)
def test_the_accumulator_is_algorithm_1(tuples, n_est, k_avg, budget, piece):
    tuples = sorted(tuples, key=lambda t: t[0])
    buffer = Accumulator(0, 100, n_expected=n_est, mean_keys=k_avg, budget=budget)
    for start in range(0, len(tuples), piece):
        part = tuples[start : start + piece]
        times = np.array([t for t, _ in part], np.int64)
        buffer.update(Chunk(times, np.array([k for _, k in part], np.uint64)))
    batch = buffer.finish()
    expected = accumulate(tuples, end=100, n_est=n_est, k_avg=k_avg, budget=budget)
    found = [
        (int(key), int(count), batch.tuples[first:last].tolist())
        for key, count, first, last in zip(
            batch.keys, batch.counts, batch.offsets[:-1], batch.offsets[1:], strict=True
        )
    ]
    assert found == expected
    assert batch.n_updates <= budget * len(expected)


def test_with_budget_for_every_tuple_the_order_is_that_of_a_sort() -> None:
    keys = zipf(5_000, 300, 1.2, seed=4)
    buffer = Accumulator(0, 5_000, n_expected=5_000, mean_keys=300, budget=5_000)
    buffer.update(Chunk(None, keys))
    batch = buffer.finish()
    assert batch.counts.tolist() == sorted(batch.counts.tolist(), reverse=True)
    assert batch.histogram.total == 5_000


def test_ten_updates_a_key_leave_the_heavy_keys_sorted() -> None:
    keys = zipf(100_000, 20_000, 1.0, seed=4)
    buffer = Accumulator(0, 100_000, n_expected=100_000, mean_keys=12_000, budget=10)
    buffer.update(Chunk(None, keys))
    batch = buffer.finish()
    exact = np.sort(batch.counts)[::-1]
    # Of the 100 keys that come out first, the sum of counts is that of the 100 heaviest within 1 %.
    assert batch.counts[:100].sum() >= 0.99 * exact[:100].sum()
    assert batch.n_updates < 3 * len(batch.keys)


def test_the_next_batch_begins_empty_where_this_one_ended() -> None:
    buffer = Accumulator(0, 10, n_expected=4, mean_keys=2)
    buffer.update(Chunk([0, 9], [1, 2]))
    assert buffer.finish().keys.tolist() == [1, 2]
    buffer.update(Chunk([10], [3]))
    assert buffer.finish().keys.tolist() == [3]
    assert buffer.finish().keys.tolist() == []


def test_bad_input_says_what_is_wrong() -> None:
    with pytest.raises(
        ParameterError, match=r"^Accumulator: n_expected must be an int of at least 1"
    ):
        Accumulator(0, 10, n_expected=0, mean_keys=2)
    buffer = Accumulator(5, 10, n_expected=4, mean_keys=2)
    with pytest.raises(DataError, match=r"\[5, 15\), got 15; finish the batch"):
        buffer.update(Chunk([5, 15], [1, 2]))
    with pytest.raises(DataError, match=r"\[5, 15\), got 4"):
        buffer.update(Chunk([4, 6], [1, 2]))
    assert len(buffer.finish().keys) == 0
