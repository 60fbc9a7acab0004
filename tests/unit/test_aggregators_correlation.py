"""Correlation against exact fractions: any split, any order, pairs with a null, NaN."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.errors import DataError, ParameterError
from skewless.spark.aggregators import Correlation
from tests.unit.split_rows import run

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)
numbers = st.none() | st.integers(-(10**6), 10**6).map(lambda i: i / 64)
rows = st.lists(st.tuples(st.sampled_from("abc"), numbers, numbers), min_size=1, max_size=60)


def exact(pairs):
    """(n, covar_samp, covar_pop, corr) in fractions."""
    known = [(Fraction(x), Fraction(y)) for x, y in pairs if x is not None and y is not None]
    n = len(known)
    if n == 0:
        return (0, None, None, None)
    mean_x, mean_y = (sum(column) / n for column in zip(*known, strict=True))
    xx = sum((x - mean_x) ** 2 for x, _ in known)
    yy = sum((y - mean_y) ** 2 for _, y in known)
    xy = sum((x - mean_x) * (y - mean_y) for x, y in known)
    if n == 1:
        return (1, None, 0.0, None)
    corr = float(xy) / math.sqrt(xx * yy) if xx and yy else None
    return (n, float(xy / (n - 1)), float(xy / n), corr)


@EXAMPLES
@given(rows, st.sampled_from([0.0, 2.0**20]), st.integers(0, 999))
def test_any_split_gives_the_same_correlation(rows, offset, seed):
    keys = [key for key, _, _ in rows]
    xs = [None if x is None else x + offset for _, x, _ in rows]
    ys = [y for _, _, y in rows]
    columns = {"x": pa.array(xs, pa.float64()), "y": pa.array(ys, pa.float64())}
    found = run(Correlation("x", "y"), keys, columns, seed)
    assert found.keys() == set(keys)
    for key, result in found.items():
        expected = exact([(x, y) for k, x, y in zip(keys, xs, ys, strict=True) if k == key])
        for name, ours, theirs in zip(result, result.values(), expected, strict=True):
            close = ours == theirs or ours == pytest.approx(theirs, rel=1e-7, abs=1e-6)
            assert close, (key, name, ours, theirs)


@pytest.mark.parametrize("seed", range(4))
def test_a_column_that_does_not_vary_has_no_correlation(seed):
    columns = {"x": pa.array([0.1] * 7), "y": pa.array([0.3, 1.0, 2.0, 5.0, 7.0, 1.0, 2.0])}
    found = run(Correlation("x", "y"), [0] * 7, columns, seed)[0]
    assert found == {"n": 7, "covar_samp": 0.0, "covar_pop": 0.0, "corr": None}


def test_pairs_with_a_null_are_ignored_and_a_nan_is_not():
    columns = {
        "x": pa.array([1.0, None, 3.0, None, 1.0, math.nan], pa.float64()),
        "y": pa.array([2, 3, None, None, 4, 5]),
    }
    found = run(Correlation("x", "y"), list("aaabcc"), columns, 0)
    assert list(found["a"].values()) == [1, None, 0.0, None]
    assert list(found["b"].values()) == [0, None, None, None]
    assert found["c"]["n"] == 2
    assert all(math.isnan(v) for v in list(found["c"].values())[1:])


def test_a_nan_beside_a_column_that_does_not_vary_is_a_nan():
    columns = {"x": pa.array([1.0, 1.0]), "y": pa.array([1.0, math.nan], from_pandas=False)}
    assert math.isnan(run(Correlation("x", "y"), [0, 0], columns, 0)[0]["corr"])


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_large_and_small_scales_do_not_overflow(scale):
    columns = {
        "x": pa.array([scale, 2 * scale, 4 * scale]),
        "y": pa.array([scale, 3 * scale, 2 * scale]),
    }
    found = run(Correlation("x", "y"), [0] * 3, columns, 0)[0]
    assert found["corr"] == pytest.approx(np.corrcoef([1.0, 2.0, 4.0], [1.0, 3.0, 2.0])[0, 1])


def test_many_keys_equal_numpy():
    rng = np.random.default_rng(3)
    keys = np.sort(rng.integers(0, 2_000, 30_000))
    x = rng.normal(size=len(keys))
    y = 0.5 * x + rng.normal(size=len(keys))
    names, first = np.unique(keys, return_index=True)
    correlation = Correlation("x", "y")
    starts = np.append(first, len(keys)).astype(np.int64)
    found = correlation.finish_groups(
        correlation.update_groups(pa.table({"x": x, "y": y}), starts)
    )["corr"].to_numpy()
    for i in range(0, len(names), 53):
        rows = keys == names[i]
        assert found[i] == pytest.approx(np.corrcoef(x[rows], y[rows])[0, 1], rel=1e-9)


def test_a_column_with_itself_and_a_copy_that_goes_on():
    same = pickle.loads(pickle.dumps(Correlation("x", "x")))  # noqa: S301 (our own bytes)
    assert same.inputs == ("x",)
    state = same.update(same.create(), pa.table({"x": [1.0, 2.0]}))
    state = same.update(state, pa.table({"x": [6.0]}))
    assert same.finish(state)["corr"] == pytest.approx(1.0)
    assert same.finish(same.create()) == {
        "n": 0,
        "covar_samp": None,
        "covar_pop": None,
        "corr": None,
    }


def test_bad_parameters_and_columns_are_named():
    with pytest.raises(ParameterError, match=r"^Correlation: y must be a str, got None\.$"):
        Correlation("x", None)
    with pytest.raises(
        DataError, match=r"^Correlation: column 'y' must hold numbers, it holds bool"
    ):
        run(Correlation("x", "y"), [1], {"x": pa.array([1]), "y": pa.array([True])}, 0)
