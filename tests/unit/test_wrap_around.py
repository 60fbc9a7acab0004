from __future__ import annotations

import itertools
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.datasets.generators import zipf
from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram, bucket_count, bucket_of
from skewless.planners import WrapAround
from skewless.routing import EVERY_WORKER, Routing
from tests.oracles import wrap_around as oracle

FEW = 5 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 40
counts = st.dictionaries(st.integers(0, 2**64 - 1), st.integers(0, 10_000), min_size=1, max_size=80)
workers = st.integers(1, 12)


def keys_in_bucket(bucket: int, n_workers: int, how_many: int) -> list[int]:
    keys = np.arange(1, 200_000, dtype=np.uint64)
    found: list[int] = keys[bucket_of(keys, bucket_count(n_workers)) == bucket].tolist()
    return found[:how_many]


def peak(routing: Routing, histogram: Histogram) -> float:
    loads = routing.loads(histogram)
    return float(loads.max() / loads.mean())


# Loads in, loads out: hot keys only, so that every load is exact.
TABLE = [
    ("one key is cut into equal parts", 4, [100], [25, 25, 25, 25], 3),
    ("keys of the fair share stay whole", 3, [10, 10, 10], [10, 10, 10], 0),
    ("a key of two fair shares is cut once", 3, [20, 10], [10, 10, 10], 1),
    ("the rest of a cut key is filled up by lighter keys", 2, [60, 20, 20], [50, 50], 1),
    ("light keys that add up are not cut", 2, [30, 30, 20, 20], [50, 50], 0),
    ("more workers than keys", 8, [40, 40], [10] * 8, 6),
    ("one worker takes all", 1, [5, 3, 1], [9], 0),
]


@pytest.mark.jit_modes
@pytest.mark.parametrize(
    ("n_workers", "heavy", "loads", "extra"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_table_of_loads(n_workers, heavy, loads, extra):
    histogram = Histogram(range(1, len(heavy) + 1), heavy)
    routing = WrapAround(n_workers).plan(histogram)
    assert routing.loads(histogram) == pytest.approx(loads)
    assert routing.extra_fragments == extra


@pytest.mark.jit_modes
@settings(max_examples=FEW, deadline=None, derandomize=True)
@given(counts, counts, workers, st.integers(1, 90))
def test_loads_are_fair_with_fewer_cuts_than_workers(first, second, n_workers, hot_keys):
    planner = WrapAround(n_workers, hot_keys=hot_keys)
    previous = None
    for weights in (first, second, first):
        histogram = Histogram.of(weights)
        routing = planner.plan(histogram, previous)
        assert routing.extra_fragments <= n_workers - 1
        # The tail alone bounds what is possible: buckets are not cut. Its prior load counts too.
        top = histogram.top(hot_keys, len(routing.buckets))
        assert top.tail is not None
        prior = top.tail.sum() / 16 / len(top.tail)
        tail = np.bincount(routing.buckets, top.tail + prior, n_workers)
        fair = (histogram.total + top.tail.sum() / 16) / n_workers
        priors = np.bincount(routing.buckets, minlength=n_workers) * prior
        planned = routing.loads(histogram) + priors
        assert (planned <= np.maximum(fair, tail) * (1 + 1e-6 * (n_workers + 1))).all()
        if (tail <= fair).all():
            assert planned == pytest.approx(np.full(n_workers, fair), rel=1e-5)
        previous = routing


@pytest.mark.jit_modes
@settings(max_examples=FEW, deadline=None, derandomize=True)
@given(st.lists(counts, min_size=1, max_size=4), workers, st.integers(1, 90), st.integers(0, 9))
def test_equals_the_oracle_over_successive_windows(windows, n_workers, hot_keys, seed):
    planner = WrapAround(n_workers, hot_keys=hot_keys, seed=seed)
    routing, expected = None, None
    for weights in windows:
        routing = planner.plan(Histogram.of(weights), routing)
        expected = oracle.plan(weights, expected, n_workers=n_workers, hot_keys=hot_keys, seed=seed)
        assert routing.hot == expected[0]
        assert routing.buckets.tolist() == expected[1]


@pytest.mark.jit_modes
@settings(max_examples=FEW, deadline=None, derandomize=True)
@given(counts, counts, workers, st.integers(1, 90))
def test_the_same_histogram_again_moves_nothing(first, second, n_workers, hot_keys):
    planner = WrapAround(n_workers, hot_keys=hot_keys)
    histogram = Histogram.of(second)
    routing = planner.plan(histogram, planner.plan(Histogram.of(first)))
    again = planner.plan(histogram, routing)
    assert again.moves(routing, histogram).total == 0
    assert again == routing


def test_a_small_change_moves_little():
    planner = WrapAround(16)
    before = Histogram.of(zipf(100_000, 20_000, 1.2, seed=1))
    counts = before.counts.copy()
    counts[4] += 100
    after = Histogram(before.keys, counts)
    routing = planner.plan(before)
    moved = planner.plan(after, routing).moves(routing, after)
    # The excess of one worker ripples through the cut keys; no more than n times the change.
    assert 0 < moved.total < 1_600


def test_zipf_windows_stay_balanced_out_of_sample_and_move_little():
    n_workers, size = 64, 100_000
    windows = zipf(6 * size, 100_000, 1.5, seed=3).reshape(6, size)
    planner = WrapAround(n_workers)
    routing, peaks, moved = None, [], []
    for window, following in itertools.pairwise(windows):
        histogram = Histogram.of(window)
        previous, routing = routing, planner.plan(histogram, routing)
        peaks.append(np.bincount(routing.route(following)).max() * n_workers / size)
        assert routing.extra_fragments < n_workers
        if previous is not None:
            moved.append(routing.moves(previous, histogram).total / size)
    assert np.mean(peaks) < 1.10
    assert np.mean(moved) < 0.06


def test_unseen_buckets_do_not_gather_on_one_worker():
    # Few tuples, nearly all buckets unseen; hashing's runs of buckets must stay about as they are.
    n_workers = 8
    routing = WrapAround(n_workers, hot_keys=1).plan(Histogram.of(zipf(300, 10**9, 0.0)))
    owned = np.bincount(routing.buckets, minlength=n_workers)
    assert owned.max() < 1.2 * owned.mean()


def test_a_bucket_above_the_fair_share_keeps_its_worker_and_sheds_the_others():
    n_workers = 4
    heavy = keys_in_bucket(0, n_workers, 60)
    light = [keys_in_bucket(bucket, n_workers, 1)[0] for bucket in range(1, 40)]
    weights = {9: 5} | dict.fromkeys(heavy, 4) | dict.fromkeys(light, 1)
    histogram = Histogram.of(weights)
    routing = WrapAround(n_workers, hot_keys=1).plan(histogram)
    others = routing.buckets[1:]
    assert routing.buckets[0] == 0
    assert not (others == 0).any()


def test_an_empty_histogram_changes_nothing():
    planner = WrapAround(4)
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
    assert WrapAround(4).plan(histogram, previous) == WrapAround(4).plan(histogram)


def test_hot_keys_defaults_to_twice_the_workers_and_at_least_64():
    histogram = Histogram.of(zipf(50_000, 5_000, 0.5))
    assert [len(WrapAround(n).plan(histogram).keys) for n in (4, 64)] == [64, 128]
    assert len(WrapAround(4, hot_keys=7).plan(histogram).keys) == 7


def test_a_histogram_with_a_tail_gives_the_same_plan_as_the_complete_one():
    complete = Histogram.of(zipf(50_000, 5_000, 1.0))
    gathered = complete.top(300, bucket_count(8))
    assert WrapAround(8).plan(gathered) == WrapAround(8).plan(complete)


def test_a_tail_over_other_buckets_is_refused():
    histogram = Histogram([1], [2], np.ones(100))
    with pytest.raises(DataError, match="gather it anew"):
        WrapAround(8).plan(histogram)


@pytest.mark.parametrize("hot_keys", [0, -1, 2.5, True, "many"])
def test_hot_keys_must_be_a_count(hot_keys):
    with pytest.raises(ParameterError, match=r"WrapAround: hot_keys must be an int of at least 1"):
        WrapAround(4, hot_keys=hot_keys)


@pytest.mark.parametrize("n_workers", [8, 1024])
def test_the_dealt_loads_follow_the_expected_ones(n_workers):
    keys = zipf(200_000, 50_000, 1.4, seed=2)
    histogram = Histogram.of(keys)
    routing = WrapAround(n_workers).plan(histogram)
    dealt = np.bincount(routing.route(keys), minlength=n_workers)
    # A share is met to within a slot, 1/64 of a mean fragment, plus the tuple that is due.
    assert np.abs(dealt - routing.loads(histogram)).max() < 0.1 * len(keys) / n_workers + 4
