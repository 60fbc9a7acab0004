"""Batch replay without Spark: what a task counts, and whether a plan pays for routing rows again."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.costs import Costs
from skewless.errors import ParameterError
from skewless.histogram import Histogram
from skewless.planners import KIP, WrapAround
from skewless.replay import FirstTasks, Replay, gain_of
from skewless.routing import Routing
from skewless.spark.task_counts import counting

COSTS = Costs(route_us=1.0, ship_us=3.0, update_us=96.0, merge_us=0.0)
N_BUCKETS = 8


def batch(keys, weights):
    columns = {
        "key": pa.array(keys, pa.int64()),
        "bucket": pa.array([key % N_BUCKETS for key in keys], pa.int32()),
        "weight": pa.array(weights),
    }
    return pa.RecordBatch.from_pydict(columns)


ROWS = st.lists(st.tuples(st.integers(-20, 20), st.integers(-3, 9)), max_size=60)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(ROWS, max_size=5), st.integers(0, 12))
def test_a_task_lists_its_heaviest_keys_and_folds_the_others_into_buckets(batches, n_listed):
    made = [
        batch([k for k, _ in rows], pa.array([w for _, w in rows], pa.int64())) for rows in batches
    ]
    [found] = counting(n_listed, N_BUCKETS)(iter(made))
    exact = Counter()
    for rows in batches:
        for key, weight in rows:
            exact[key] += weight
    # Heaviest first; of equal ones the lower hash, read as unsigned, comes first.
    order = sorted(exact, key=lambda key: (-exact[key], key % 2**64))
    tail = [0] * N_BUCKETS
    for key in order[n_listed:]:
        tail[key % N_BUCKETS] += exact[key]
    assert found.to_pylist() == [
        {
            "rows": sum(map(len, batches)),
            "keys": order[:n_listed],
            "weights": [exact[key] for key in order[:n_listed]],
            "tail": tail,
        }
    ]


def test_a_task_of_many_rows_folds_what_it_holds_and_loses_nothing(monkeypatch):
    monkeypatch.setattr("skewless.spark.task_counts._HELD", 10)
    rng = np.random.default_rng(1)
    made = [rng.integers(0, 300, 50).tolist() for _ in range(40)]
    [found] = counting(1_000, N_BUCKETS, whole=False)(
        iter([batch(k, np.full(50, 0.5)) for k in made])
    )
    [row] = found.to_pylist()
    exact = Counter(key for keys in made for key in keys)
    assert dict(zip(row["keys"], row["weights"], strict=True)) == {
        k: n / 2 for k, n in exact.items()
    }
    assert row["rows"] == 2_000
    assert row["tail"] == [0.0] * N_BUCKETS


@pytest.mark.parametrize("whole", [True, False])
def test_an_empty_task_sends_empty_counts_of_the_right_types(whole):
    [found] = counting(4, N_BUCKETS, whole=whole)(iter([]))
    assert found.to_pylist() == [{"rows": 0, "keys": [], "weights": [], "tail": [0] * N_BUCKETS}]
    kind = pa.list_(pa.int64() if whole else pa.float64())
    assert found.schema.field("weights").type == found.schema.field("tail").type == kind


# Fraction, tasks, those counted.
TASKS = [
    (0.1, 20, 2),
    (0.1, 21, 3),
    (0.1, 1, 1),
    (0.07, 100, 7),
    (1.0, 5, 5),
    (1e-9, 9, 1),
    (0.5, 0, 0),
]


@pytest.mark.parametrize(("fraction", "of_tasks", "counted"), TASKS)
def test_a_fraction_is_rounded_up_to_whole_tasks(fraction, of_tasks, counted):
    assert Replay(fraction).tasks(of_tasks) == counted


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.5, float("nan"), "half", None, True])
def test_a_fraction_that_is_none_is_refused(fraction):
    with pytest.raises(ParameterError, match=r"Replay: fraction must be a float in \(0, 1\], got"):
        Replay(fraction)


def test_costs_that_are_none_are_refused():
    with pytest.raises(
        ParameterError, match=r"Replay: costs must be skewless.costs.Costs, got 5.0"
    ):
        Replay(0.1, costs=5.0)


def first(counts, rows=None, *, tasks=1, of_tasks=10, seconds=7.0, shuffled=False):
    histogram = Histogram(np.arange(1, len(counts) + 1), counts)
    return FirstTasks(histogram, rows or sum(counts), tasks, of_tasks, seconds, shuffled)


#: Two workers; keys 1 to 4 of 40, 30, 20 and 10 rows: hashed by hand below, even under this plan.
EVEN = Routing(2, {1: {0: 1.0}, 2: {1: 1.0}, 3: {1: 1.0}, 4: {0: 1.0}})
COUNTS = [40, 30, 20, 10]


def hashed(counts, n=2):
    loads = np.zeros(n)
    np.add.at(loads, Routing.hashing(n).route(np.arange(1, len(counts) + 1)), counts)
    return loads


def test_the_seconds_are_those_of_the_slowest_worker_over_all_tasks():
    gain = gain_of(first(COUNTS), EVEN, COSTS)
    # A row costs 99 us of a worker, and 1 us to route, over both of them; ten times the counted rows.
    worst = hashed(COUNTS).max()
    assert gain.hash_s == pytest.approx(10 * (worst * 99 + 100 / 2) / 1e6)
    assert gain.plan_s == pytest.approx(10 * (50 * 99 + 100 / 2) / 1e6)
    assert gain.hash_balance == pytest.approx(worst / 50)
    assert gain.plan_balance == 1.0
    assert gain.replay_s == pytest.approx(100 * 4 / 1e6)


def test_weights_change_the_balance_and_not_the_number_of_rows():
    rows, weights = (
        gain_of(first(COUNTS), EVEN, COSTS),
        gain_of(first(COUNTS, rows=50), EVEN, COSTS),
    )
    assert weights.plan_s == pytest.approx(rows.plan_s / 2)
    assert weights.plan_balance == rows.plan_balance


def test_slots_bound_what_runs_side_by_side():
    one = gain_of(first(COUNTS, tasks=4, of_tasks=40), EVEN, COSTS, slots=1)
    assert one.hash_s == pytest.approx(one.plan_s)  # all the work passes one slot, however it lies
    assert one.replay_s == pytest.approx(100 * 4 / 1e6)
    assert not one.pays
    four = gain_of(first(COUNTS, tasks=4, of_tasks=40), EVEN, COSTS, slots=8)
    assert four.replay_s == pytest.approx(100 * 4 / 1e6 / 4)


def test_a_plan_that_gains_less_than_the_replay_takes_does_not_pay():
    # What the plan saves grows with the number of tasks, and what the replay takes does not.
    saved = (hashed(COUNTS).max() - 50) * 99
    assert saved > 0
    assert gain_of(first(COUNTS, of_tasks=10), EVEN, COSTS).pays
    cheap = COSTS._replace(update_us=0.0, ship_us=1.0, route_us=99.0)
    assert not gain_of(first(COUNTS, of_tasks=1), EVEN, cheap).pays
    assert not gain_of(first(COUNTS), Routing.hashing(2), COSTS).pays


def test_behind_a_shuffle_all_that_counting_took_stands_against_the_gain():
    behind = gain_of(first(COUNTS, shuffled=True), EVEN, COSTS)
    assert behind.replay_s == pytest.approx(7.0 + 100 * 4 / 1e6)
    assert not behind.pays
    assert gain_of(first(COUNTS, of_tasks=10_000, shuffled=True), EVEN, COSTS).pays


def test_a_cut_costs_a_merge():
    whole, cut = Routing(2, {1: {0: 1.0}}), Routing(2, {1: {0: 0.5, 1: 0.5}})
    dear = COSTS._replace(merge_us=1e6)
    counted = first([100])
    assert gain_of(counted, whole, dear).plan_s < gain_of(counted, cut, dear).plan_s
    assert gain_of(counted, cut, COSTS).plan_s < gain_of(counted, whole, COSTS).plan_s


def test_no_rows_gain_nothing():
    empty = FirstTasks(Histogram([], []), 0, 0, 0, 0.1, shuffled=False)
    assert gain_of(empty, Routing.hashing(3), COSTS) == (0.0, 0.0, 0.0, 1.0, 1.0)
    assert not gain_of(empty, Routing.hashing(3), COSTS).pays


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.lists(st.integers(0, 500), min_size=1, max_size=80), st.integers(1, 6))
def test_a_plan_is_never_promised_to_be_better_than_even(counts, n):
    counted = first(counts, rows=sum(counts) or 1)
    for planner in (KIP(n), WrapAround(n)):
        gain = gain_of(counted, planner.plan(counted.histogram), COSTS)
        assert gain.plan_balance >= 1 - 1e-9
        assert gain.hash_balance == pytest.approx(
            hashed(counts, n).max() / max(np.mean(hashed(counts, n)), 1e-300)
            if sum(counts)
            else 1.0
        )
