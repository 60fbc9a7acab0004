"""Quantiles: within the bound each reports, which stays within the one that is promised."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.errors import DataError, ParameterError
from skewless.spark.aggregators import Quantiles
from skewless.spark.aggregators.quantiles import _capacity
from tests.unit.split_rows import merge, run, states_of

EXAMPLES = settings(max_examples=80, deadline=None, derandomize=True)
PROBABILITIES = [0.0, 0.01, 0.25, 0.5, 0.9, 1.0]
numbers = st.none() | st.integers(-20, 20).map(float) | st.floats(-1e9, 1e9)
rows = st.lists(st.tuples(st.sampled_from("kl"), numbers), min_size=1, max_size=120)


def tight(capacity: int) -> Quantiles:
    """A sketch that is full after a few values."""
    quantiles = Quantiles("x", PROBABILITIES)
    quantiles.capacity = capacity
    return quantiles


def promised(n: int, k: int) -> float:
    return 0.0 if n <= k else n / (2 * k) * (math.floor(math.log2(n / k)) + 2)


def assert_within(result, values, capacity: int, probabilities=PROBABILITIES) -> None:
    ordered = np.sort(values)  # NaN last
    n = len(ordered)
    assert result["n"] == n
    if n == 0:
        assert result["quantiles"] is result["rank_error"] is None
        return
    error = round(result["rank_error"] * n)
    assert error <= promised(n, capacity)
    for p, found in zip(probabilities, result["quantiles"], strict=True):
        rank = max(1, math.ceil(p * n))
        below = np.searchsorted(ordered, found, "left")
        upto = np.searchsorted(ordered, found, "right")
        assert below < upto, "a quantile is one of the values"
        assert below < rank + error
        assert upto >= rank - error


@EXAMPLES
@given(rows, st.sampled_from([2, 4, 10]), st.integers(0, 999))
def test_any_split_is_within_the_bound_that_it_reports(rows, capacity, seed):
    columns = {"x": pa.array([x for _, x in rows], pa.float64())}
    found = run(tight(capacity), [k for k, _ in rows], columns, seed)
    for key, result in found.items():
        values = [x for k, x in rows if k == key and x is not None]
        assert_within(result, values, capacity)


@EXAMPLES
@given(rows, st.integers(0, 999))
def test_up_to_the_capacity_quantiles_are_exact(rows, seed):
    columns = {"x": pa.array([x for _, x in rows], pa.float64())}
    for key, result in run(
        Quantiles("x", PROBABILITIES), [k for k, _ in rows], columns, seed
    ).items():
        values = [x for k, x in rows if k == key and x is not None]
        if values:
            assert result["rank_error"] == 0
            exact = np.quantile(values, PROBABILITIES, method="inverted_cdf")
            assert result["quantiles"] == exact.tolist()


def test_a_compaction_by_hand():
    """A capacity of 4: the even places of 1 to 6 go up, then the odd ones of 7 to 10."""
    quantiles = tight(4)
    state = quantiles.update(quantiles.create(), pa.table({"x": [7.0, 1, 2, 3, 4, 5, 6]}))
    expected = {"n": 7, "over": 1, "under": 0, "values": [7.0, 1.0, 3.0, 5.0], "sizes": [1, 3]}
    assert state == expected
    more = quantiles.update(state, pa.table({"x": [8.0, 9, 10, 11]}))
    # Then level 1 holds 1, 3, 5, 8, 10, and the even places of four of them go up.
    assert more["n"] == 11
    assert (more["over"], more["under"]) == (3, 1)
    assert more["sizes"] == [1, 1, 2]
    assert more["values"] == [11.0, 10.0, 1.0, 5.0]


STREAMS = {
    "sorted": np.arange(200_000.0),
    "backwards": -np.arange(200_000.0),
    "at random": np.random.default_rng(1).normal(size=200_000),
    "few values": np.random.default_rng(2).integers(0, 9, 200_000).astype(float),
    "two piles": np.tile([0.0, 1e9], 100_000),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize(("n_parts", "fan_in"), [(1, 1), (100, 2), (100, 100), (1000, 10)])
def test_the_accuracy_is_kept_in_every_tree_of_merges(name, n_parts, fan_in):
    stream = STREAMS[name]
    quantiles = Quantiles("x", PROBABILITIES, accuracy=20)
    starts = np.linspace(0, len(stream), n_parts + 1).astype(np.int64)
    states = quantiles.update_groups(pa.table({"x": stream}), starts)
    states = states.select(quantiles.state_schema.names).cast(quantiles.state_schema).to_pylist()
    while len(states) > 1:
        states = merge(
            quantiles, [states[i : i + fan_in] for i in range(0, len(states), fan_in)]
        ).to_pylist()
    assert all(size <= quantiles.capacity for size in states[0]["sizes"])
    result = quantiles.finish(states[0])
    assert_within(result, stream, quantiles.capacity)
    assert result["rank_error"] <= 1 / 20


def test_the_order_of_the_states_changes_nothing():
    rng = np.random.default_rng(3)
    quantiles = tight(8)
    parts = [rng.normal(size=rng.integers(1, 60)) for _ in range(9)]
    states = [
        states_of(quantiles, [0] * len(p), {"x": pa.array(p)}, list(range(len(p))))[0][1]
        for p in parts
    ]
    first = merge(quantiles, [states]).to_pylist()
    assert merge(quantiles, [states[::-1]]).to_pylist() == first


def test_many_keys_of_all_sizes():
    rng = np.random.default_rng(4)
    keys = np.sort(rng.zipf(1.3, 60_000) % 2_000)
    x = rng.normal(size=len(keys))
    names, first = np.unique(keys, return_index=True)
    quantiles = tight(20)
    starts = np.append(first, len(keys)).astype(np.int64)
    found = quantiles.finish_groups(quantiles.update_groups(pa.table({"x": x}), starts)).to_pylist()
    for i in [*range(40), *range(40, len(names), 41)]:
        assert_within(found[i], x[keys == names[i]], 20)


@pytest.mark.parametrize("seed", range(4))
def test_nan_is_above_all_numbers_and_nulls_are_ignored(seed):
    values = pa.array([None, 1.0, math.nan, math.inf, None, 2.0], from_pandas=False)
    found = run(Quantiles("x", [0.25, 0.75, 1]), [1] * 6, {"x": values}, seed)[1]
    assert found["quantiles"][:2] == [1.0, math.inf]
    assert math.isnan(found["quantiles"][2])
    nothing = run(Quantiles("x", [0.5]), [1, 1], {"x": pa.nulls(2)}, seed)[1]
    assert nothing == {"n": 0, "quantiles": None, "rank_error": None}


@pytest.mark.parametrize("accuracy", [1, 7, 100, 1000, 100_000])
def test_the_capacity_is_the_least_that_keeps_the_promise(accuracy):
    k = _capacity(accuracy)
    n = 2**40
    assert k % 2 == 0
    assert promised(n, k) <= n / accuracy
    assert k == 2 or promised(n, k - 2) > n / accuracy
    for n in (k + 1, 10 * k, 10**6 + k):
        assert promised(n, k) <= n / accuracy


def test_bad_parameters_are_named_and_good_ones_pickle():
    for wrong in (0.5, [], [1.5], [float("nan")], ["0.5"], [True]):
        with pytest.raises(
            ParameterError, match=r"^Quantiles: probabilities must be one or more floats"
        ):
            Quantiles("x", wrong)
    with pytest.raises(
        ParameterError, match=r"^Quantiles: accuracy must be an int in \[1, 100000\], got 0"
    ):
        Quantiles("x", [0.5], 0)
    with pytest.raises(DataError, match=r"^Quantiles: column 'x' must hold numbers"):
        run(Quantiles("x", [0.5]), [1], {"x": pa.array(["a"])}, 0)
    copy = pickle.loads(pickle.dumps(Quantiles("x", np.array([0.5]))))  # noqa: S301 (our own bytes)
    assert copy.probabilities == (0.5,)
