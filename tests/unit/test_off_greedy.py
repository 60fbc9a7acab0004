from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.datasets.generators import zipf
from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram, bucket_count
from skewless.planners import OffGreedy
from skewless.routing import EVERY_WORKER, Routing

# Loads in, loads out; every key is hot.
TABLE = [
    ("each key goes to the least loaded worker", 3, [70, 60, 50, 40, 20], [70, 80, 90]),
    ("ties go to the lowest worker", 4, [5, 5, 5, 5, 1], [6, 5, 5, 5]),
    ("Graham's worst case for two workers", 2, [3, 3, 2, 2, 2], [7, 5]),
    ("a key above the fair share stays whole", 2, [90, 5, 5], [90, 10]),
    ("more workers than keys leave workers idle", 4, [8, 8], [8, 8, 0, 0]),
    ("one worker takes all", 1, [5, 3, 1], [9]),
]


@pytest.mark.jit_modes
@pytest.mark.parametrize(
    ("n_workers", "heavy", "loads"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_table_of_loads(n_workers, heavy, loads):
    histogram = Histogram(range(1, len(heavy) + 1), heavy)
    routing = OffGreedy(n_workers).plan(histogram)
    assert routing.loads(histogram).tolist() == loads
    assert routing.extra_fragments == 0


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=7), st.integers(1, 3))
def test_the_maximum_is_within_grahams_bound_of_the_best_placement(heavy, n_workers):
    histogram = Histogram(range(len(heavy)), heavy)
    best = min(
        max(np.bincount(where, heavy, n_workers))
        for where in itertools.product(range(n_workers), repeat=len(heavy))
    )
    planned = OffGreedy(n_workers).plan(histogram).loads(histogram).max()
    assert planned <= best * (4 / 3 - 1 / (3 * n_workers)) + 1e-9


def test_zipf_below_the_fair_share_is_balanced_to_a_tuple():
    # The heaviest key of Zipf 1.0 over 100,000 keys carries 8.3 %, less than one of 8 workers.
    histogram = Histogram.of(zipf(100_000, 100_000, 1.0, seed=1))
    loads = OffGreedy(8).plan(histogram).loads(histogram)
    assert loads.max() - loads.mean() < 10
    every_key = OffGreedy(8, hot_keys=len(histogram)).plan(histogram).loads(histogram)
    assert every_key.max() - every_key.min() <= 1


def test_the_balance_lasts_into_the_next_window():
    first, second = zipf(200_000, 100_000, 1.0, seed=2).reshape(2, -1)
    loads = np.bincount(OffGreedy(8).plan(Histogram.of(first)).route(second), minlength=8)
    assert loads.max() / loads.mean() < 1.03


def test_an_empty_histogram_changes_nothing():
    planner = OffGreedy(4)
    routing = planner.plan(Histogram([1, 2], [50, 3]))
    assert planner.plan(Histogram([], [])) == Routing.hashing(4)
    assert planner.plan(Histogram([], []), routing) is routing
    assert planner.plan(Histogram([5], [0]), routing) is routing
    assert planner.plan(Histogram([], []), Routing.hashing(5)) == Routing.hashing(4)
    everywhere = Routing(4, buckets=[EVERY_WORKER] * bucket_count(4))
    assert planner.plan(Histogram([], []), everywhere) == Routing.hashing(4)


def test_a_histogram_with_a_tail_gives_the_same_plan_as_the_complete_one():
    complete = Histogram.of(zipf(50_000, 5_000, 1.0))
    gathered = complete.top(300, bucket_count(8))
    assert OffGreedy(8).plan(gathered) == OffGreedy(8).plan(complete)


def test_a_tail_over_other_buckets_is_refused():
    with pytest.raises(DataError, match="gather it anew"):
        OffGreedy(8).plan(Histogram([1], [2], np.ones(100)))


@pytest.mark.parametrize("hot_keys", [0, -1, 2.5, True, "many"])
def test_hot_keys_must_be_a_count(hot_keys):
    with pytest.raises(ParameterError, match=r"OffGreedy: hot_keys must be an int of at least 1"):
        OffGreedy(4, hot_keys=hot_keys)
