from __future__ import annotations

import math
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.errors import ParameterError
from skewless.sketches import LossyCounting
from tests.oracles.lossy_counting import LossyCounting as Oracle

EXAMPLES = settings(max_examples=40, deadline=None, derandomize=True)
streams = st.lists(st.integers(0, 9) | st.integers(0, 2**64 - 1), max_size=150)
errors = st.sampled_from([1.0, 0.3, 0.1, 0.02])


def fed(epsilon, stream):
    sketch = LossyCounting(epsilon, seed=2)
    sketch.update(np.array(stream, np.uint64))
    return sketch


def entries(sketch):
    key, counts, missed = (part.tolist() for part in sketch._used())
    return dict(zip(key, zip(counts, missed, strict=True), strict=True))


def assert_bounds(sketch, stream):
    exact, found = Counter(stream), entries(sketch)
    for key, true in exact.items():
        count, missed = found.get(key, (0, sketch.missed))
        assert count <= true <= count + missed
        assert missed <= sketch.epsilon * sketch.total
    assert sketch.total == len(stream)


@pytest.mark.jit_modes
@EXAMPLES
@given(errors, streams, st.integers(0, 150))
def test_the_entries_equal_the_oracle_whatever_the_chunks_and_after_pickling(epsilon, stream, cut):
    oracle = Oracle(epsilon)
    for key in stream:
        oracle.update(key)
    sketch = pickle.loads(pickle.dumps(fed(epsilon, stream[:cut])))  # noqa: S301 (our own bytes)
    sketch.update(np.array(stream[cut:], np.uint64))
    assert entries(sketch) == oracle.entries
    assert sketch.estimate([3, 77]).tolist() == [oracle.entries.get(k, (0, 0))[0] for k in (3, 77)]


@EXAMPLES
@given(errors, streams, streams, streams)
def test_a_count_is_low_by_epsilon_of_the_total_at_most_also_when_merged(
    epsilon, first, second, later
):
    sketch = fed(epsilon, first)
    assert_bounds(sketch, first)
    sketch.merge(fed(epsilon, second))
    assert_bounds(sketch, first + second)
    sketch.update(np.array(later, np.uint64))
    assert_bounds(sketch, first + second + later)


def test_no_key_above_the_share_is_missing_and_none_is_far_below():
    stream = np.random.default_rng(1).zipf(1.3, 50_000)
    sketch = fed(0.002, stream)
    exact = Counter(stream.tolist())
    keys, counts = sketch.top(0.01)
    assert {key for key, count in exact.items() if count >= 500} <= set(keys.tolist())
    assert all(exact[key] >= (0.01 - 0.002) * 50_000 for key in keys.tolist())
    assert counts.tolist() == sorted(counts.tolist(), reverse=True)


def test_the_state_stays_within_the_entries_of_the_paper_as_keys_grow():
    sketch = LossyCounting(0.001)
    sketch.update(np.arange(500_000, dtype=np.uint64))
    most = math.log(0.001 * 500_000) / 0.001 + 1000
    assert sketch.state_bytes <= 2 * most * 48


@pytest.mark.parametrize("epsilon", [0.0, 1.5, "0.1", None, float("nan")])
def test_a_bad_epsilon_is_named(epsilon):
    with pytest.raises(
        ParameterError, match=r"^LossyCounting: epsilon must be a float in \[1e-09, 1\]"
    ):
        LossyCounting(epsilon)
