from __future__ import annotations

import numpy as np
import pytest

from skewless.datasets.generators import zipf
from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram, bucket_count, bucket_of
from skewless.planners import KIP, OffGreedy, Readj
from skewless.routing import EVERY_WORKER, Routing
from tests.oracles import readj as oracle
from tests.oracles.utility import Problem

# Loads in, loads out (sorted); every key is hot.
TABLE = [
    ("equal keys spread over all workers", 4, [5, 5, 5, 5], [5, 5, 5, 5]),
    ("the lightest keys fill the emptiest workers", 3, [70, 60, 50, 40, 20], [70, 80, 90]),
    ("one worker takes all", 1, [5, 3, 1], [9]),
]


@pytest.mark.jit_modes
@pytest.mark.parametrize(
    ("n_workers", "heavy", "loads"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_table_of_loads(n_workers, heavy, loads):
    histogram = Histogram(range(1, len(heavy) + 1), heavy)
    routing = Readj(n_workers).plan(histogram)
    assert sorted(routing.loads(histogram).tolist()) == loads
    assert routing.extra_fragments == 0


def test_the_default_number_of_keys_equals_the_oracle():
    keys = zipf(600, 20, 1.0, seed=1)
    counts = {int(k): int(c) for k, c in zip(*np.unique(keys, return_counts=True), strict=True)}
    routing = Readj(5).plan(Histogram.of(counts))
    assert (routing.hot, routing.buckets.tolist()) == oracle.plan(counts, None, n_workers=5)


def test_the_imbalance_falls_to_a_twentieth():
    counts = {k: int(c) for k, c in enumerate(np.arange(60, 0, -1) ** 2)}
    problem = Problem(counts, None, 5, None, 0.2, 0)
    routing = Readj(5).plan(Histogram.of(counts))
    after = {key: next(iter(shares)) for key, shares in routing.hot.items()}
    assert problem.rho(after) < 0.05 * problem.rho(problem.before)


def test_it_moves_less_than_planning_from_nothing():
    histogram = Histogram.of(zipf(40_000, 5_000, 1.0, seed=2))
    hashing = Routing.hashing(8)
    moved = {
        planner.name: planner.plan(histogram).moves(hashing, histogram).total
        for planner in (Readj(8), OffGreedy(8))
    }
    assert moved["readj"] < 0.2 * moved["off_greedy"]


def test_keys_that_are_not_tracked_follow_the_hash_again():
    previous = Routing(4, {5: {3: 1.0}}, np.full(bucket_count(4), 2))
    routing = Readj(4, hot_keys=1).plan(Histogram([9, 5], [50, 10]), previous)
    assert list(routing.hot) == [9]
    assert routing.buckets.tolist() == Routing.hashing(4).buckets.tolist()


def test_a_tracked_key_stays_where_it_is_if_that_is_as_good():
    home = int(Routing.hashing(4).buckets[bucket_of([9], bucket_count(4))[0]])
    elsewhere = (home + 1) % 4
    previous = Routing(4, {9: {elsewhere: 1.0}})
    assert Readj(4).plan(Histogram([9], [50])).hot == {9: {home: 1.0}}
    assert Readj(4).plan(Histogram([9], [50]), previous).hot == {9: {elsewhere: 1.0}}


def test_kip_balances_better_since_it_counts_the_light_keys():
    first, second = zipf(200_000, 100_000, 1.0, seed=3).reshape(2, -1)
    peaks = {}
    for planner in (KIP(8), Readj(8)):
        loads = np.bincount(planner.plan(Histogram.of(first)).route(second), minlength=8)
        peaks[planner.name] = float(loads.max() / loads.mean())
    assert peaks["kip"] < peaks["readj"] < 1.34


def test_an_empty_histogram_changes_nothing():
    planner = Readj(4)
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
    assert Readj(4).plan(histogram, previous) == Readj(4).plan(histogram)


def test_a_histogram_that_is_all_tail_is_planned():
    tail = np.ones(bucket_count(8), np.int64)
    assert Readj(8).plan(Histogram([], [], tail)) == Routing.hashing(8)


def test_bad_input_is_refused():
    with pytest.raises(DataError, match="gather it anew"):
        Readj(8).plan(Histogram([1], [2], np.ones(100)))
    with pytest.raises(
        ParameterError, match=r"Readj: hot_keys must be an int of at least 1, got 0"
    ):
        Readj(4, hot_keys=0)
    with pytest.raises(ParameterError, match=r"Readj: theta must be a float above 0, got -1"):
        Readj(4, theta=-1)
