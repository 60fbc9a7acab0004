"""HeavyHitters: the bounds hold for any split and order, and the state never grows."""

from __future__ import annotations

import math
import pickle
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.datasets import zipf
from skewless.errors import DataError, ParameterError
from skewless.spark.aggregators import HeavyHitters
from tests.unit.split_rows import merge, run, states_of

EXAMPLES = settings(max_examples=80, deadline=None, derandomize=True)
values = st.none() | st.integers(0, 3) | st.integers(0, 12)
rows = st.lists(st.tuples(st.sampled_from("kl"), values), min_size=1, max_size=80)


def assert_bounds(result, counter: Counter, capacity: int) -> None:
    """What the docstring promises, value by value."""
    n, error, heavy = result["n"], result["error"], result["heavy"]
    assert n == counter.total()
    assert 0 <= error <= n / (capacity + 1)
    assert len(heavy) <= capacity
    listed = {e["value"]: e["n"] for e in heavy}
    assert [(-e["n"], e["value"]) for e in heavy] == sorted((-c, v) for v, c in listed.items())
    for value, count in listed.items():
        assert count - error <= counter[value] <= count
    assert all(counter[value] <= error for value in counter.keys() - listed.keys())


@EXAMPLES
@given(rows, st.integers(1, 6), st.integers(0, 999))
def test_counts_are_within_the_error_for_any_split(rows, capacity, seed):
    columns = {"v": pa.array([v for _, v in rows], pa.int64())}
    heavy = HeavyHitters("v", capacity, "bigint")
    for key, result in run(heavy, [k for k, _ in rows], columns, seed).items():
        assert_bounds(result, Counter(v for k, v in rows if k == key and v is not None), capacity)


@EXAMPLES
@given(rows, st.integers(0, 999))
def test_few_distinct_values_are_counted_exactly(rows, seed):
    columns = {"v": pa.array([v for _, v in rows], pa.int64())}
    for key, result in run(
        HeavyHitters("v", 13, "bigint"), [k for k, _ in rows], columns, seed
    ).items():
        counter = Counter(v for k, v in rows if k == key and v is not None)
        assert result["error"] == 0
        assert {e["value"]: e["n"] for e in result["heavy"]} == counter


def test_the_counters_of_misra_and_gries_by_hand():
    """Counts 5, 3, 2, 2 in two counters: 2 is subtracted; merged with 4, 1 of others: 1 more."""
    first = {"n": 12, "error": 2, "counters": [{"value": "a", "n": 3}, {"value": "b", "n": 1}]}
    heavy = HeavyHitters("v", 2)
    assert heavy.update(heavy.create(), pa.table({"v": list("aaaaabbbccdd")})) == first
    other = heavy.update(heavy.create(), pa.table({"v": list("aaaac")}))
    assert other["error"] == 0
    both = heavy.merge(first, other)
    assert both == {"error": 3, "counters": [{"value": "a", "n": 6}]}
    top = [{"value": "a", "n": 9}]
    assert heavy.finish({"n": 17, **both}) == {"n": 17, "error": 3, "heavy": top}


def test_values_that_come_equally_often_leave_no_counter_and_the_error_says_it():
    found = run(HeavyHitters("v", 2), [1] * 3, {"v": pa.array(["a", "b", "c"])}, 0)[1]
    assert found == {"n": 3, "error": 1, "heavy": []}


@pytest.mark.parametrize("fan_in", [2, 7, 64])
def test_merging_in_a_tree_keeps_the_bound_on_a_zipf_stream(fan_in):
    stream = zipf(64_000, 5_000, 1.1, seed=4).astype(np.int64)
    heavy = HeavyHitters("v", 50, "bigint")
    states = [
        states_of(heavy, [0] * len(part), {"v": pa.array(part)}, list(range(len(part))))[0][1]
        for part in np.array_split(stream, 64)
    ]
    while len(states) > 1:
        listed = [states[i : i + fan_in] for i in range(0, len(states), fan_in)]
        states = merge(heavy, listed).to_pylist()
        assert all(len(state["counters"]) <= 50 for state in states)
    result = heavy.finish(states[0])
    assert_bounds(result, Counter(stream.tolist()), 50)
    assert result["heavy"]


def test_many_keys_keep_their_bounds():
    rng = np.random.default_rng(6)
    keys = np.sort(rng.integers(0, 2_000, 40_000))
    values = rng.zipf(1.4, len(keys)) % 1000
    names, first = np.unique(keys, return_index=True)
    heavy = HeavyHitters("v", 4, "bigint")
    starts = np.append(first, len(keys)).astype(np.int64)
    found = heavy.finish_groups(heavy.update_groups(pa.table({"v": values}), starts)).to_pylist()
    for i in range(0, len(names), 61):
        assert_bounds(found[i], Counter(values[keys == names[i]].tolist()), 4)


def test_only_nulls_and_nan():
    heavy = HeavyHitters("v", 2, "double")
    found = run(
        heavy, [1, 1, 2, 2], {"v": pa.array([None, None, math.nan, math.nan], from_pandas=False)}, 3
    )
    assert found[1] == {"n": 0, "error": 0, "heavy": []}
    assert found[2]["heavy"][0]["n"] == 2


def test_bad_parameters_are_named_and_good_ones_pickle():
    with pytest.raises(
        ParameterError, match=r"^HeavyHitters: capacity must be an int of at least 1, g"
    ):
        HeavyHitters("v", 0)
    with pytest.raises(
        ParameterError, match=r"^HeavyHitters: value_type must be .*did you mean 'bigint'"
    ):
        HeavyHitters("v", 1, "bigin")
    with pytest.raises(DataError, match=r"^HeavyHitters: column 'v' holds int64, not a string"):
        run(HeavyHitters("v", 1), [1], {"v": pa.array([1])}, 0)
    copy = pickle.loads(pickle.dumps(HeavyHitters("v", 3)))  # noqa: S301 (our own bytes)
    assert copy.state == "n bigint, error bigint, counters array<struct<value: string, n: bigint>>"
