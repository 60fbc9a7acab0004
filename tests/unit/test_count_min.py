from __future__ import annotations

import math
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.errors import ParameterError
from skewless.sketches import CountMin
from tests.oracles.count_min import CountMin as Oracle

EXAMPLES = settings(max_examples=40, deadline=None, derandomize=True)
streams = st.lists(
    st.tuples(st.integers(0, 20) | st.integers(0, 2**64 - 1), st.integers(0, 9)), max_size=80
)
shapes = st.tuples(
    st.sampled_from([1, 2, 7, 64]), st.sampled_from([1, 4]), st.booleans(), st.integers(0, 3)
)


def fed(shape, stream):
    width, depth, conservative, seed = shape
    sketch = CountMin(width, depth=depth, conservative=conservative, seed=seed)
    sketch.update(*columns(stream))
    return sketch


def columns(stream):
    return np.array([k for k, _ in stream], np.uint64), np.array([w for _, w in stream], np.int64)


@pytest.mark.jit_modes
@EXAMPLES
@given(shapes, streams, st.integers(0, 80))
def test_the_counters_equal_the_oracle_whatever_the_chunks_and_after_pickling(shape, stream, cut):
    oracle = Oracle(*shape)
    for key, weight in stream:
        oracle.update(key, weight)
    sketch = pickle.loads(pickle.dumps(fed(shape, stream[:cut])))  # noqa: S301 (our own bytes)
    sketch.update(*columns(stream[cut:]))
    assert sketch.state.cell.tolist() == oracle.rows
    assert sketch.total == sum(weight for _, weight in stream)
    asked = [0, 1, 99]
    assert sketch.estimate(asked).tolist() == [oracle.estimate(key) for key in asked]


@EXAMPLES
@given(shapes, streams, streams)
def test_an_estimate_is_never_below_the_truth_also_when_merged(shape, first, second):
    sketch = fed(shape, first)
    sketch.merge(fed(shape, second))
    exact = Counter()
    for key, weight in first + second:
        exact[key] += weight
    keys = np.array(list(exact), np.uint64)
    assert (sketch.estimate(keys) >= list(exact.values())).all()
    assert sketch.total == exact.total()


@EXAMPLES
@given(shapes, streams, streams)
def test_merged_counters_are_those_of_both_streams(shape, first, second):
    shape = (*shape[:2], False, shape[3])
    sketch = fed(shape, first)
    sketch.merge(fed(shape, second))
    assert sketch.state.cell.tolist() == fed(shape, first + second).state.cell.tolist()


@EXAMPLES
@given(shapes, streams)
def test_conservative_estimates_are_at_most_the_plain_ones(shape, stream):
    keys = columns(stream)[0]
    plain = fed((*shape[:2], False, shape[3]), stream).estimate(keys)
    assert (fed((*shape[:2], True, shape[3]), stream).estimate(keys) <= plain).all()


@pytest.mark.parametrize("conservative", [False, True])
@pytest.mark.parametrize("depth", [1, 3])
def test_the_error_exceeds_e_n_over_width_for_a_part_of_exp_minus_depth_at_most(
    depth, conservative
):
    random = np.random.default_rng(2)
    missed, asked = 0, 0
    for seed in range(20):
        stream = random.zipf(1.3, 5000) % 10_000
        exact = Counter(stream.tolist())
        sketch = CountMin(50, depth=depth, conservative=conservative, seed=100 * seed)
        sketch.update(stream)
        keys = list(exact)
        over = sketch.estimate(keys) - [exact[key] for key in keys]
        missed += int((over > sketch.error_bound).sum())
        asked += len(keys)
    assert missed <= math.exp(-depth) * asked


def test_a_sketch_within_an_error_has_the_width_and_depth_of_theorem_1():
    sketch = CountMin.within(0.001, 0.05, conservative=True, seed=4)
    assert (sketch.width, sketch.depth, sketch.conservative, sketch.seed) == (2719, 3, True, 4)
    assert sketch.state_bytes == 8 * 2719 * 3 + 8
    with pytest.raises(
        ParameterError, match=r"CountMin.within: epsilon must be a float in \(0, 1\]"
    ):
        CountMin.within(0.0, 0.1)
    with pytest.raises(ParameterError, match=r"CountMin.within: delta must be a float in \(0, 1\)"):
        CountMin.within(0.1, 1.0)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"width": 0}, r"CountMin: width must be an int in \[1, 2147483647\], got 0"),
        ({"depth": 65}, r"CountMin: depth must be an int in \[1, 64\], got 65"),
        ({"conservative": 1}, "CountMin: conservative must be a bool, got 1"),
        ({"seed": -1}, "CountMin: seed must be an int in"),
    ],
)
def test_a_bad_parameter_is_named_with_its_range_and_value(parameters, sentence):
    with pytest.raises(ParameterError, match=sentence):
        CountMin(**{"width": 10, **parameters})


def test_sketches_of_other_hash_functions_do_not_merge():
    with pytest.raises(ParameterError, match="CountMin: other must have the same seed, 0, got 1"):
        CountMin(10).merge(CountMin(10, seed=1))
