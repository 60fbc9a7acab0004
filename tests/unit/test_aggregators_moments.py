"""Moments against exact fractions: any split, any order, nulls, NaN and offsets."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.errors import DataError, ParameterError
from skewless.spark.aggregators import Moments
from tests.unit.split_rows import run

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)
numbers = st.none() | st.integers(-(10**6), 10**6).map(lambda i: i / 64)
rows = st.lists(st.tuples(st.sampled_from("abc"), numbers), min_size=1, max_size=60)


def exact(values):
    """Spark's definitions in fractions: (n, mean, var_samp, var_pop, skewness, kurtosis)."""
    known = [Fraction(v) for v in values if v is not None]
    n = len(known)
    if n == 0:
        return (0, None, None, None, None, None)
    mean = sum(known) / n
    m2, m3, m4 = (sum((v - mean) ** power for v in known) for power in (2, 3, 4))
    var_samp = float(m2 / (n - 1)) if n > 1 else None
    if m2 == 0:
        return (n, float(mean), var_samp, 0.0, None, None)
    skewness = math.sqrt(n) * float(m3) / float(m2) ** 1.5
    return (n, float(mean), var_samp, float(m2 / n), skewness, float(n * m4 / m2**2) - 3.0)


@EXAMPLES
@given(rows, st.sampled_from([0.0, 2.0**20]), st.integers(0, 999))
def test_any_split_gives_spark_s_statistics(rows, offset, seed):
    keys = [key for key, _ in rows]
    values = [None if v is None else v + offset for _, v in rows]
    found = run(Moments("x"), keys, {"x": pa.array(values, pa.float64())}, seed)
    assert found.keys() == set(keys)
    for key, result in found.items():
        expected = exact([v for k, v in zip(keys, values, strict=True) if k == key])
        for name, ours, theirs in zip(result, result.values(), expected, strict=True):
            close = ours == theirs or ours == pytest.approx(theirs, rel=1e-9, abs=1e-6)
            assert close, (key, name, ours, theirs)


@EXAMPLES
@given(st.floats(-1e300, 1e300), st.integers(1, 50), st.integers(0, 999))
def test_equal_values_have_no_variance_to_the_last_bit(value, n, seed):
    found = run(Moments("x"), [1] * n, {"x": pa.array([value] * n)}, seed)[1]
    assert found["mean"] == value
    assert found["var_pop"] == 0.0
    assert found["skewness"] is found["kurtosis"] is None


def test_nulls_only_give_a_count_of_0_and_nulls():
    found = run(Moments("x"), ["a", "a", "b"], {"x": pa.array([None, None, 1.0])}, 0)
    assert list(found["a"].values()) == [0, None, None, None, None, None]
    assert list(found["b"].values()) == [1, 1.0, None, 0.0, None, None]
    assert run(Moments("x"), ["a"], {"x": pa.nulls(1)}, 0)["a"]["n"] == 0


@pytest.mark.parametrize("seed", range(5))
def test_a_nan_makes_all_but_the_count_nan_and_an_infinity_keeps_the_mean(seed):
    columns = {"x": pa.array([1.0, math.nan, 2.0, 3.0, math.inf, math.inf, 1.0], pa.float64())}
    found = run(Moments("x"), list("aaaabbb"), columns, seed)
    assert found["a"]["n"] == 4
    assert all(math.isnan(v) for v in list(found["a"].values())[1:])
    assert found["b"]["mean"] == math.inf
    assert math.isnan(found["b"]["var_pop"])


def test_an_offset_costs_no_more_digits_than_it_costs_the_mean():
    values = np.random.default_rng(1).integers(0, 1000, 10_000) + 1e12
    keys = [0] * len(values)
    found = run(Moments("x"), keys, {"x": pa.array(values)}, 7)[0]
    n, mean, *expected = exact(values.tolist())
    assert (found["n"], found["mean"]) == (n, mean)
    assert list(found.values())[2:] == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_many_keys_of_whole_numbers_equal_numpy():
    rng = np.random.default_rng(2)
    keys, values = rng.integers(0, 5_000, 40_000), rng.integers(-50, 50, 40_000)
    order = np.argsort(keys, kind="stable")
    names, first = np.unique(keys[order], return_index=True)
    starts = np.append(first, len(keys)).astype(np.int64)
    moments = Moments("x")
    states = moments.update_groups(pa.table({"x": values[order].astype(np.int32)}), starts)
    found = moments.finish_groups(states)
    for i in range(0, len(names), 97):
        x = values[keys == names[i]]
        assert found["n"][i].as_py() == len(x)
        assert found["var_pop"][i].as_py() == pytest.approx(x.var(), rel=1e-12)


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        (pa.array([Decimal("1.50"), Decimal("2.50")]), 2.0),
        (pa.array([2**62, 2**62], pa.int64()), 2.0**62),
        (pa.array([1, 2], pa.int8()), 1.5),
        (pa.array([0.5, 0.25], pa.float32()), 0.375),
    ],
    ids=["decimal", "large bigint", "tinyint", "float"],
)
def test_every_kind_of_number_is_read(values, mean):
    assert run(Moments("x"), [1, 1], {"x": values}, 0)[1]["mean"] == mean


def test_updates_of_one_key_add_up_and_a_copy_goes_on():
    moments = pickle.loads(pickle.dumps(Moments("x")))  # noqa: S301 (our own bytes)
    state = moments.update(moments.create(), pa.table({"x": [1.0, 2.0]}))
    state = moments.update(state, pa.table({"x": [6.0]}))
    assert moments.finish(state)["var_samp"] == pytest.approx(7.0)
    assert moments.finish(moments.create())["mean"] is None
    assert moments.inputs == ("x",)


def test_what_is_no_number_is_refused():
    with pytest.raises(
        DataError, match=r"^Moments: column 'x' must hold numbers, it holds string\.$"
    ):
        run(Moments("x"), [1], {"x": pa.array(["1"])}, 0)
    with pytest.raises(ParameterError, match=r"^Moments: column must be a str, got 3\.$"):
        Moments(3)
