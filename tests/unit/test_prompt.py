from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.chunk import Chunk
from skewless.datasets.generators import zipf
from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram, bucket_count
from skewless.metrics import cardinalities
from skewless.partitioners import Hash
from skewless.planners import Prompt
from skewless.routing import EVERY_WORKER, Routing

FEW = 5 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 40
counts = st.dictionaries(st.integers(0, 2**64 - 1), st.integers(0, 10_000), min_size=1, max_size=80)

#: 385 tuples of 8 keys, two of them above the cut-off of 48.125: what the paper says of its figure 5
#: (the figure's own counts are not in its text).
FIGURE_5 = [150, 85, 40, 35, 30, 20, 15, 10]

# Loads in, loads out, extra fragments; every key is hot.
TABLE = [
    ("keys of the mean are dealt forth and back", 2, [5, 5, 5, 5], [10, 10], 0),
    (
        "what is left of a heavy key stays with it if it fits",
        2,
        [34, 30, 16, 14, 6],
        [50, 50],
        0,
    ),
    ("what does not fit fills the block and goes to the other", 2, [70, 10, 10, 10], [50, 50], 1),
    ("fewer keys than blocks fill all blocks", 4, [70, 30], [25, 25, 25, 25], 3),
    ("one key is cut into equal blocks", 5, [100], [20] * 5, 4),
    ("fewer tuples than blocks give a tuple a block", 8, [2, 1], [1, 1, 1, 0, 0, 0, 0, 0], 1),
    ("one block takes all", 1, [5, 3, 1], [9], 0),
]


@pytest.mark.jit_modes
@pytest.mark.parametrize(
    ("n_workers", "heavy", "loads", "extra"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_table_of_loads(n_workers, heavy, loads, extra):
    histogram = Histogram(range(1, len(heavy) + 1), heavy)
    routing = Prompt(n_workers).plan(histogram)
    assert routing.loads(histogram) == pytest.approx(loads)
    assert routing.extra_fragments == extra


def test_the_papers_385_tuples_make_four_equal_blocks_with_two_keys_cut():
    histogram = Histogram(range(1, 9), FIGURE_5)
    routing = Prompt(4).plan(histogram)
    assert sorted(routing.loads(histogram).round().tolist()) == [96, 96, 96, 97]
    assert routing.split_keys.tolist() == [1, 2]
    fragments = np.bincount(routing.workers, minlength=4)
    assert fragments.max() - fragments.min() <= 2


@pytest.mark.jit_modes
@settings(max_examples=FEW, deadline=None, derandomize=True)
@given(counts, st.integers(1, 100))
def test_blocks_are_equal_unless_whole_keys_exceed_them_and_fragments_are_whole(weights, n_workers):
    histogram = Histogram.of(weights)
    routing = Prompt(n_workers, hot_keys=100).plan(histogram)
    loads = routing.loads(histogram)
    size = -(-histogram.total // n_workers)
    cut = histogram.total // max(np.count_nonzero(histogram.counts), n_workers, 1)
    # A block above the size holds fragments and keys of at most the cut-off, and no rest.
    held = np.bincount(routing.workers, minlength=n_workers)
    assert (loads <= np.maximum(size, held * max(cut, 1)) + 1e-6).all()
    for key, shares in routing.hot.items():
        parts = np.array(list(shares.values())) * weights[key]
        assert parts == pytest.approx(parts.round(), abs=1e-6)
        assert parts.sum() == pytest.approx(weights[key])


def test_zipf_blocks_are_equal_in_tuples_and_near_in_keys():
    keys = zipf(100_000, 100_000, 1.0, seed=1)
    histogram = Histogram.of(keys)
    routing = Prompt(16).plan(histogram)
    assert routing.loads(histogram).max() <= np.ceil(len(keys) / 16)
    workers = routing.route(keys)
    distinct = cardinalities(keys, workers, 16)
    assert distinct.max() / distinct.mean() < 1.25
    hashed = np.bincount(Hash(16).route(Chunk(None, keys)), minlength=16)
    assert np.bincount(workers).max() < 1.01 * len(keys) / 16 < 0.6 * hashed.max()


def test_an_empty_histogram_changes_nothing():
    planner = Prompt(4)
    routing = planner.plan(Histogram([1, 2], [50, 3]))
    assert planner.plan(Histogram([], [])) == Routing.hashing(4)
    assert planner.plan(Histogram([], []), routing) is routing
    assert planner.plan(Histogram([5], [0]), routing) is routing
    everywhere = Routing(4, buckets=[EVERY_WORKER] * bucket_count(4))
    assert planner.plan(Histogram([], []), everywhere) == Routing.hashing(4)


def test_a_histogram_with_a_tail_gives_the_same_plan_as_the_complete_one():
    complete = Histogram.of(zipf(50_000, 5_000, 1.0))
    gathered = complete.top(300, bucket_count(8))
    assert Prompt(8).plan(gathered) == Prompt(8).plan(complete)


def test_a_tail_over_other_buckets_is_refused():
    with pytest.raises(DataError, match="gather it anew"):
        Prompt(8).plan(Histogram([1], [2], np.ones(100)))


@pytest.mark.parametrize("hot_keys", [0, -1, 2.5, True, "many"])
def test_hot_keys_must_be_a_count(hot_keys):
    with pytest.raises(ParameterError, match=r"Prompt: hot_keys must be an int of at least 1"):
        Prompt(4, hot_keys=hot_keys)
