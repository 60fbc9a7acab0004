from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.errors import ParameterError
from skewless.kernel import mix
from skewless.sketches import HyperLogLog
from skewless.sketches.hyper_log_log import distinct, insert, no_registers
from tests.oracles.hyper_log_log import HyperLogLog as Oracle

EXAMPLES = settings(max_examples=40, deadline=None, derandomize=True)
streams = st.lists(st.integers(0, 300) | st.integers(0, 2**64 - 1), max_size=150)
shapes = st.tuples(st.sampled_from([4, 5, 6, 8]), st.sampled_from([3, 5]), st.integers(0, 3))


def fed(shape, stream):
    precision, register_bits, seed = shape
    sketch = HyperLogLog(precision=precision, register_bits=register_bits, seed=seed)
    sketch.update(np.array(stream, np.uint64))
    return sketch


@pytest.mark.jit_modes
@EXAMPLES
@given(shapes, streams, st.integers(0, 150))
def test_registers_and_answers_equal_the_oracle_whatever_the_chunks(shape, stream, cut):
    oracle = Oracle(*shape)
    for key in stream:
        oracle.update(key)
    sketch = pickle.loads(pickle.dumps(fed(shape, stream[:cut])))  # noqa: S301 (our own bytes)
    sketch.update(np.array(stream[cut:], np.uint64))
    assert sketch.state.register[0].tolist() == oracle.registers
    assert sketch.estimate() == pytest.approx(oracle.estimate(), rel=1e-12)
    asked = list(range(1000, 1050))
    assert sketch.contains(asked).tolist() == [oracle.contains(key) for key in asked]


@EXAMPLES
@given(shapes, streams, streams)
def test_merging_equals_having_seen_both_streams(shape, first, second):
    sketch = fed(shape, first)
    sketch.merge(fed(shape, second))
    both = fed(shape, first + second)
    for mine, theirs in zip(sketch.state, both.state, strict=True):
        assert mine.tolist() == theirs.tolist()


@EXAMPLES
@given(shapes, streams)
def test_a_key_that_was_inserted_is_never_denied_and_repeats_change_nothing(shape, stream):
    sketch = fed(shape, stream)
    assert sketch.contains(np.array(stream, np.uint64)).all()
    before = sketch.estimate()
    sketch.update(np.array(stream, np.uint64))
    assert sketch.estimate() == before


@pytest.mark.parametrize("n_keys", [10, 1000, 9000, 12_000, 100_000, 3_000_000])
def test_the_error_is_within_three_standard_errors(n_keys):
    errors = []
    for seed in range(4):
        sketch = HyperLogLog(seed=seed)
        sketch.update(np.arange(n_keys, dtype=np.uint64))
        errors.append(sketch.estimate() / n_keys - 1)
    # Between the two ranges the estimate of the paper is biased by 2 to 3 %.
    assert max(map(abs, errors)) <= 3 * sketch.standard_error + 0.015 * (8000 < n_keys < 20_000)


def test_an_empty_sketch_holds_nothing():
    sketch = HyperLogLog()
    assert sketch.estimate() == 0.0
    assert not sketch.contains([1, 2, 3]).any()
    assert sketch.state_bytes == 4096 + 24


def test_few_keys_are_rarely_taken_for_seen():
    sketch = HyperLogLog()
    sketch.update(np.arange(40, dtype=np.uint64))
    assert sketch.contains(np.arange(1000, 11_000)).mean() <= 1.3 * 40 / 4096


@pytest.mark.jit_modes
def test_several_counters_share_one_state():
    state = no_registers(3, 6, 5)
    for key in range(20):
        insert(state, 1, np.uint64(mix(np.uint64(key), np.uint64(0))))
    alone = fed((6, 5, 0), range(20))
    assert distinct(state, 1) == alone.estimate()
    assert (distinct(state, 0), distinct(state, 2)) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"precision": 3}, r"HyperLogLog: precision must be an int in \[4, 16\], got 3"),
        ({"register_bits": 6}, r"HyperLogLog: register_bits must be an int in \[3, 5\], got 6"),
        ({"seed": None}, "HyperLogLog: seed must be an int in"),
    ],
)
def test_a_bad_parameter_is_named_with_its_range_and_value(parameters, sentence):
    with pytest.raises(ParameterError, match=sentence):
        HyperLogLog(**parameters)


def test_sketches_of_other_shapes_do_not_merge():
    with pytest.raises(ParameterError, match="same precision, 12, got 4"):
        HyperLogLog().merge(HyperLogLog(precision=4))
