"""DistinctCount: the registers of the HyperLogLog over all values, for any split and order."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.errors import DataError, ParameterError
from skewless.keys import hash64
from skewless.sketches import HyperLogLog
from skewless.spark.aggregators import DistinctCount
from tests.unit.split_rows import merge, run, states_of

EXAMPLES = settings(max_examples=40, deadline=None, derandomize=True)
rows = st.lists(
    st.tuples(st.sampled_from("kl"), st.none() | st.integers(0, 60)), min_size=1, max_size=120
)


def registers(state: bytes, precision: int) -> list[int]:
    """Read a state as its docstring says: a byte per register, or three per register in use."""
    if len(state) == 1 << precision:
        return list(state)
    assert len(state) % 3 == 0
    assert len(state) < 1 << precision
    found = [0] * (1 << precision)
    for i in range(0, len(state), 3):
        found[state[i] + 256 * state[i + 1]] = state[i + 2]
    return found


def sketch_of(values: pa.Array, precision: int) -> HyperLogLog:
    sketch = HyperLogLog(precision=precision)
    sketch.update(hash64(values.drop_null()))
    return sketch


@pytest.mark.jit_modes
@EXAMPLES
@given(rows, st.sampled_from([4, 6, 12]), st.integers(0, 999))
def test_any_split_gives_the_registers_of_one_sketch(rows, precision, seed):
    keys = [key for key, _ in rows]
    column = pa.array([v for _, v in rows], pa.int64())
    count = DistinctCount("v", precision)
    found = run(count, keys, {"v": column}, seed)
    for key, result in found.items():
        mine = pa.array([v for k, v in rows if k == key], pa.int64())
        sketch = sketch_of(mine, precision)
        assert result["n_distinct"] == round(sketch.estimate())
        fresh = dict(states_of(count, keys, {"v": column}, list(range(len(keys)))))[key][
            "registers"
        ]
        assert registers(fresh, precision) == sketch.state.register[0].tolist()


@EXAMPLES
@given(rows, st.permutations(range(6)), st.sampled_from([4, 6]))
def test_the_order_of_the_parts_changes_no_byte(rows, order, precision):
    count = DistinctCount("v", precision)
    column = {"v": pa.array([v for _, v in rows], pa.int64())}
    ones = [0] * len(rows)
    parts = [list(range(i, len(rows), 6)) for i in range(6)]
    states = [states_of(count, ones, column, part)[0][1] for part in parts if part]
    whole = states_of(count, ones, column, list(range(len(rows))))[0][1]
    shuffled = [states[i] for i in order if i < len(states)]
    assert merge(count, [shuffled]).to_pylist() == [whole]
    pair = merge(count, [shuffled[:2]]).to_pylist()
    assert merge(count, [[*pair, *shuffled[2:]]]).to_pylist() == [whole]


@pytest.mark.parametrize("n", [10, 1_000, 10_000, 100_000])
@pytest.mark.parametrize("precision", [8, 12])
def test_the_estimate_is_within_four_standard_errors(n, precision):
    count = DistinctCount("v", precision)
    values = np.random.default_rng(n).permutation(np.repeat(np.arange(n), 2))
    starts = np.linspace(0, len(values), 8).astype(np.int64)
    states = count.update_groups(pa.table({"v": values}), starts)
    merged = count.merge_groups(states, np.array([0, 7]))
    assert len(merged["registers"][0].as_py()) <= 1 << precision
    estimate = count.finish_groups(merged)["n_distinct"][0].as_py()
    assert abs(estimate / n - 1) <= 4 * count.error


def test_many_keys_of_few_values_take_few_bytes_and_are_almost_exact():
    rng = np.random.default_rng(7)
    keys = np.sort(rng.integers(0, 20_000, 100_000))
    values = rng.integers(0, 3, len(keys))
    names, first = np.unique(keys, return_index=True)
    count = DistinctCount("v")
    starts = np.append(first, len(keys)).astype(np.int64)
    states = count.update_groups(pa.table({"v": values}), starts)
    assert max(len(s) for s in states["registers"].to_pylist()) <= 9
    found = count.finish_groups(states)["n_distinct"].to_pylist()
    for i in range(0, len(names), 501):
        assert found[i] == len(np.unique(values[keys == names[i]]))


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", "b", "a", None]),
        pa.array([0.0, -0.0, math.nan, math.nan, None], from_pandas=False),
        pa.array([[1], [1, 2], None, [1]]),
        pa.array([{"a": 1}, {"a": 2}, {"a": 1}]),
        pa.array([True, False, None]),
        pa.array([b"a", b"b", b"b"]),
    ],
    ids=lambda values: str(values.type),
)
@pytest.mark.parametrize("seed", [0, 3])
def test_values_of_any_type_are_counted_without_nulls(values, seed):
    assert run(DistinctCount("v"), [1] * len(values), {"v": values}, seed)[1] == {"n_distinct": 2}


def test_only_nulls_and_no_rows_are_zero():
    count = DistinctCount("v")
    assert run(count, [1, 1], {"v": pa.nulls(2)}, 0) == {1: {"n_distinct": 0}}
    assert count.finish(count.create()) == {"n_distinct": 0}


def test_states_may_come_as_a_slice():
    count = DistinctCount("v", 4)
    states = count.update_groups(pa.table({"v": [1, 2, 3, 3]}), np.array([0, 1, 2, 4]))
    merged = count.merge_groups(states.slice(1), np.array([0, 2]))
    assert count.finish_groups(merged)["n_distinct"].to_pylist() == [2]
    assert count.finish_groups(states.slice(2))["n_distinct"].to_pylist() == [1]


def test_bad_parameters_are_named_and_good_ones_pickle():
    with pytest.raises(
        ParameterError, match=r"^DistinctCount: precision must be an int in \[4, 16\], got"
    ):
        DistinctCount("v", 17)
    with pytest.raises(ParameterError, match=r"^DistinctCount: column must be a str, got None\.$"):
        DistinctCount(None)
    maps = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))
    with pytest.raises(DataError, match="map"):
        run(DistinctCount("v"), [1], {"v": maps}, 0)
    copy = pickle.loads(pickle.dumps(DistinctCount("v", 5)))  # noqa: S301 (our own bytes)
    state = copy.update(copy.create(), pa.table({"v": [1, 2]}))
    assert copy.finish(copy.update(state, pa.table({"v": [2, 3]}))) == {"n_distinct": 3}
