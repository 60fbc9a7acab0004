from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.datasets.generators import zipf
from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram, bucket_count, bucket_of
from skewless.planners import Mixed, OffGreedy
from skewless.routing import EVERY_WORKER, Routing
from tests.oracles import mixed as oracle

FEW = 5 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 40
counts = st.dictionaries(st.integers(0, 2**64 - 1), st.integers(0, 100), min_size=1, max_size=40)


def keys_of_worker(worker: int, n_workers: int, how_many: int) -> list[int]:
    """Return keys that plain hashing gives to `worker`."""
    keys = np.arange(1, 5_000, dtype=np.uint64)
    home = Routing.hashing(n_workers).buckets[bucket_of(keys, bucket_count(n_workers))]
    found: list[int] = keys[home == worker].tolist()
    return found[:how_many]


def test_a_worker_below_the_bound_is_left_alone():
    low, high = keys_of_worker(0, 2, 1), keys_of_worker(1, 2, 1)
    assert Mixed(2).plan(Histogram([*low, *high], [54, 46])) == Routing.hashing(2)


def test_the_heaviest_key_of_an_overfull_worker_goes_to_the_emptiest():
    keys = keys_of_worker(0, 3, 3)
    # The bound is 1.2 * 100 / 3 = 40: the keys of 40 and of 35 leave, in this order.
    routing = Mixed(3, theta=0.2).plan(Histogram(keys, [40, 35, 25]))
    assert routing.hot == {keys[0]: {1: 1.0}, keys[1]: {2: 1.0}}


def test_a_key_that_fits_nowhere_swaps_lighter_ones_out():
    low, high = keys_of_worker(0, 2, 2), keys_of_worker(1, 2, 3)
    # The bound is 51. 30 leaves worker 0 (60), fits nowhere beside 40, and takes the place of 20.
    histogram = Histogram([*low, *high], [30, 30, 20, 10, 10])
    routing = Mixed(2, theta=0.02).plan(histogram)
    assert routing.loads(histogram).tolist() == [50, 50]
    assert routing.hot == {low[0]: {1: 1.0}, high[0]: {0: 1.0}}


def test_the_table_is_kept_short_by_sending_its_lightest_keys_home():
    keys = keys_of_worker(0, 4, 8)
    previous = Routing(4, {key: {1 + i % 3: 1.0} for i, key in enumerate(keys[2:])})
    weights = [20, 20, 10, 10, 10, 10, 10, 10]
    assert len(Mixed(4, theta=3.0).plan(Histogram(keys, weights), previous).hot) == 6
    short = Mixed(4, theta=3.0, table_keys=2).plan(Histogram(keys, weights), previous)
    assert sorted(short.hot) == sorted(keys[2:4])


def test_theta_is_raised_until_a_placement_is_found():
    histogram = Histogram(keys_of_worker(0, 4, 2), [90, 10])
    routing = Mixed(4, theta=0.1).plan(histogram)
    # 90 is 3.6 fair shares, and both keys have one home: the lighter one leaves or the bound is 100.
    assert sorted(routing.loads(histogram).tolist()) == [0, 0, 10, 90]


@pytest.mark.jit_modes
@settings(max_examples=FEW, deadline=None, derandomize=True)
@given(st.lists(counts, min_size=1, max_size=3), st.integers(1, 6), st.integers(1, 9))
def test_equals_the_oracle_and_keeps_its_table_over_successive_windows(windows, n_workers, room):
    planner = Mixed(n_workers, table_keys=room, theta=0.05)
    routing, expected = None, None
    for weights in windows:
        routing = planner.plan(Histogram.of(weights), routing)
        expected = oracle.plan(weights, expected, n_workers=n_workers, table_keys=room, theta=0.05)
        assert (routing.hot, routing.buckets.tolist()) == expected
        assert sum(weights.values()) == 0 or len(routing.hot) <= room


def test_zipf_is_within_the_bound_and_far_less_moves_than_from_nothing():
    histogram = Histogram.of(zipf(100_000, 100_000, 1.0, seed=1))
    routing = Mixed(8).plan(histogram)
    loads = routing.loads(histogram)
    assert loads.max() <= 1.25 * loads.mean()
    assert len(routing.hot) <= 17
    hashing = Routing.hashing(8)
    moved = routing.moves(hashing, histogram).total
    assert moved < 0.2 * OffGreedy(8).plan(histogram).moves(hashing, histogram).total


def test_a_tail_weighs_on_its_workers_and_does_not_move():
    n_buckets = bucket_count(2)
    tail = np.zeros(n_buckets, np.int64)
    tail[: n_buckets // 2] = 1
    keys = keys_of_worker(0, 2, 2)
    histogram = Histogram(keys, [500, 524], tail)
    routing = Mixed(2).plan(histogram)
    assert routing.loads(histogram).tolist() == [n_buckets // 2, 1024]
    assert routing.buckets.tolist() == Routing.hashing(2).buckets.tolist()


def test_a_table_key_without_a_weight_is_dropped():
    key = keys_of_worker(0, 2, 1)[0]
    assert Mixed(2).plan(Histogram([3], [5]), Routing(2, {key: {1: 1.0}})).hot.get(key) is None


def test_an_empty_histogram_changes_nothing():
    planner = Mixed(4)
    routing = planner.plan(Histogram([1, 2], [50, 3]))
    assert planner.plan(Histogram([], [])) == Routing.hashing(4)
    assert planner.plan(Histogram([], []), routing) is routing
    assert planner.plan(Histogram([5], [0]), routing) is routing


@pytest.mark.parametrize(
    "previous",
    [
        Routing.hashing(5),
        Routing.hashing(4, seed=1),
        Routing(4, {1: {3: 1.0}}, [0, 1, 2, 3]),
        Routing.shuffling(4),
        Routing(4, buckets=[EVERY_WORKER] * bucket_count(4)),
    ],
    ids=["other workers", "other seed", "other buckets", "one bucket", "buckets of every worker"],
)
def test_a_previous_routing_that_cannot_be_compared_is_ignored(previous):
    histogram = Histogram.of(zipf(5_000, 500, 1.0))
    assert Mixed(4).plan(histogram, previous) == Mixed(4).plan(histogram)


def test_bad_input_is_refused():
    with pytest.raises(DataError, match="gather it anew"):
        Mixed(8).plan(Histogram([1], [2], np.ones(100)))
    with pytest.raises(
        ParameterError, match=r"Mixed: table_keys must be an int of at least 1, got"
    ):
        Mixed(4, table_keys=0)
    with pytest.raises(ParameterError, match=r"Mixed: theta must be a float above 0, got 0"):
        Mixed(4, theta=0)
