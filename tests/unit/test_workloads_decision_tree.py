"""DecisionTree: the paper's histogram procedures, and a tree that equals that of a single worker."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.partitioners import PKG
from skewless.workloads import DecisionTree
from skewless.workloads.bins import Bins, insert, merged, reduced, sum_upto, uniform
from tests.oracles import decision_tree as oracle

pytestmark = pytest.mark.jit_modes
EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)
NONE = Bins(np.empty(0), np.empty(0))
numbers = st.floats(-100, 100, width=32) | st.integers(0, 9).map(float)
streams = st.lists(numbers, min_size=1, max_size=40)
sizes = st.integers(2, 9)


def oracle_of(values, most):
    bins = {}
    for value in values:
        bins = oracle.update(bins, value, most)
    return bins


def as_dict(bins):
    return dict(zip(bins.p.tolist(), bins.m.tolist(), strict=True))


@EXAMPLES
@given(streams, sizes)
def test_update_is_algorithm_1(values, most):
    found, wanted = as_dict(insert(NONE, values, most)), oracle_of(values, most)
    assert list(found) == pytest.approx(sorted(wanted), rel=1e-9, abs=1e-9)
    assert list(found.values()) == [wanted[p] for p in sorted(wanted)]


@EXAMPLES
@given(streams, streams, sizes)
def test_merge_is_algorithm_2_and_does_not_depend_on_the_sides(left, right, most):
    a, b = insert(NONE, left, most), insert(NONE, right, most)
    found, wanted = as_dict(merged(a, b, most)), oracle.merge(as_dict(a), as_dict(b), most)
    assert list(found) == pytest.approx(sorted(wanted), rel=1e-9, abs=1e-9)
    assert list(found.values()) == [wanted[p] for p in sorted(wanted)]
    assert as_dict(merged(b, a, most)) == found


@EXAMPLES
@given(streams, sizes, numbers)
def test_sum_is_algorithm_3(values, most, b):
    bins = insert(NONE, values, most)
    assert sum_upto(bins, b) == pytest.approx(oracle.sum_upto(as_dict(bins), b), rel=1e-9)


@EXAMPLES
@given(streams, sizes, st.integers(2, 8))
def test_uniform_is_algorithm_4_and_inverts_the_sum(values, most, n):
    bins = insert(NONE, values, most)
    points = uniform(bins, n)
    if len(bins.p) < 2:
        assert points == []
        return
    assert points == pytest.approx(oracle.uniform(as_dict(bins), n), rel=1e-6, abs=1e-6)
    for j, u in enumerate(points, start=1):
        if bins.p[0] < u < bins.p[-1] and u not in bins.p:
            assert sum_upto(bins, u) == pytest.approx(j / n * len(values), rel=1e-6, abs=1e-6)


def test_the_example_of_the_paper():
    """Section 2.1: ten numbers in five bins, the last three from another processor."""
    table = [
        ([23, 19, 10, 16, 36], {10: 1, 16: 1, 19: 1, 23: 1, 36: 1}),
        ([2], {2: 1, 10: 1, 17.5: 2, 23: 1, 36: 1}),
        ([9], {2: 1, 9.5: 2, 17.5: 2, 23: 1, 36: 1}),
    ]
    bins = NONE
    for values, wanted in table:
        bins = insert(bins, values, 5)
        assert as_dict(bins) == wanted
    bins = merged(bins, insert(NONE, [32, 30, 45], 5), 5)
    assert {round(p, 2): m for p, m in as_dict(bins).items()} == {
        2: 1,
        9.5: 2,
        19.33: 3,
        32.67: 3,
        45: 1,
    }
    assert sum_upto(bins, 15) == pytest.approx(3.275, abs=0.01)
    # The paper goes on from sums rounded to two places and prints 15.21 and 28.98.
    assert uniform(bins, 3) == pytest.approx([15.21, 28.98], abs=0.02)


@EXAMPLES
@given(streams, sizes, st.lists(st.integers(0, 40), max_size=4))
def test_number_mean_and_range_are_those_of_the_values_whatever_the_split(values, most, cuts):
    edges = [0, *sorted(cuts), len(values)]
    parts = [insert(NONE, values[a:b], most) for a, b in itertools.pairwise(edges)]
    found = reduced(
        np.concatenate([part.p for part in parts]), np.concatenate([part.m for part in parts]), most
    )
    covered = [v for a, b in itertools.pairwise(edges) for v in values[a:b]]
    assert found.m.sum() == len(covered)
    assert len(found.p) <= most
    assert (found.p * found.m).sum() == pytest.approx(math.fsum(covered), rel=1e-6, abs=1e-6)
    assert min(covered) <= found.p[0]
    assert found.p[-1] <= max(covered)
    assert (np.diff(found.p) > 0).all()


def grown(forest, x, labels, n_workers, levels):
    tree = forest.sprout()
    for _ in range(levels):
        chunk = forest.messages(tree, x, labels)
        workers = PKG(n_workers).route(chunk)
        whole = forest.start()
        for worker in range(n_workers):
            rows = np.flatnonzero(workers == worker)
            part = forest.start()
            part.update(Chunk(chunk.time[rows], chunk.key[rows], chunk.value.take(pa.array(rows))))
            whole.merge(part)
        tree = forest.grow(tree, whole.answer())
    return tree


def test_with_few_values_the_tree_is_that_of_a_single_worker():
    rng = np.random.default_rng(3)
    x = rng.integers(0, 12, (400, 3)).astype(float)
    labels = ((x[:, 0] > 5) ^ (x[:, 1] > 3)).astype(int) + 2 * (x[:, 2] > 9)
    forest = DecisionTree(most_bins=12, points=12)
    one = grown(forest, x, labels, 1, 4)
    assert len(one.feature) > 7
    for n_workers in (2, 7):
        assert grown(forest, x, labels, n_workers, 4) == one


def test_it_learns_a_checkerboard_from_continuous_values_on_any_number_of_workers():
    rng = np.random.default_rng(4)
    x = rng.random((3000, 2))
    labels = (x[:, 0] > 0.5).astype(int) * 2 + (x[:, 1] > 0.25)
    for n_workers in (1, 8):
        tree = grown(DecisionTree(most_bins=30, points=20), x, labels, n_workers, 4)
        assert (tree.classify(x) == labels).mean() > 0.95


def test_a_leaf_of_one_class_or_of_few_rows_is_not_split():
    forest = DecisionTree()
    x = np.array([[1.0], [2.0], [3.0]])
    assert grown(forest, x, [1, 1, 1], 2, 2).feature == [-1]
    part = forest.start()
    part.update(forest.messages(forest.sprout(), x, [0, 0, 1]))
    stump = forest.grow(forest.sprout(), part.answer(), least_rows=4)
    assert (stump.feature, stump.label) == ([-1], [0])
    split = forest.grow(forest.sprout(), part.answer())
    assert split.feature == [0, -1, -1]
    assert split.classify([[1.0], [3.0]]).tolist() == [0, 1]


def test_growing_leaves_the_tree_that_was_there():
    forest = DecisionTree()
    tree = forest.sprout()
    part = forest.start()
    part.update(forest.messages(tree, [[1.0], [2.0]], [0, 1]))
    forest.grow(tree, part.answer())
    assert tree == forest.sprout()


def test_nulls_and_nan_are_left_out_and_bad_input_is_named():
    forest = DecisionTree()
    part = forest.start()
    value = pa.table(
        {"leaf": [0, 0, 0], "label": [1, None, 1], "x": pa.array([math.nan, 1.0, 2.0])}
    )
    part.update(Chunk(None, [4, 4, 4], value))
    assert part.answer().to_pylist() == [
        {"key": 4, "histograms": [{"leaf": 0, "label": 1, "bins": [{"p": 2.0, "m": 1.0}]}]}
    ]
    with pytest.raises(
        DataError, match=r"^DecisionTree.messages: x must be a matrix and labels one"
    ):
        forest.messages(forest.sprout(), [1.0], [1])
    with pytest.raises(
        ParameterError, match=r"^DecisionTree: most_bins must be an int of at least 2"
    ):
        DecisionTree(1)
    with pytest.raises(ParameterError, match=r"^DecisionTree.grow: least_gain must be a float in"):
        forest.grow(forest.sprout(), part.answer(), least_gain=2.0)
