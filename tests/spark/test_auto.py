"""What ``"auto"`` takes for an aggregator: timed, chosen by the cost model, explained."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless.spark.auto import choose, measure
from skewless.spark.keys import resolve_keys
from tests.spark.test_split_or_whole import Counted


@pytest.fixture(scope="module")
def hot(spark: SparkSession) -> DataFrame:
    n = F.col("id")
    key = F.when(n % 2 == 0, F.lit(0)).otherwise(n % 500)
    return spark.range(0, 200_000, 1, 2).select(key.alias("k"), n)


def prepared(aggregator: skewless.Aggregator, rows: pa.Table) -> skewless.Aggregator:
    aggregator.state_schema = pa.schema([("n", pa.int64())])
    assert rows.num_rows
    return aggregator


class Clock:
    """A clock that moves only when work is done on it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s


class OnTheClock(Counted):
    """Takes 30 us a row and `state_us` a state, of a clock's time."""

    def __init__(self, clock: Clock, state_us: float) -> None:
        self.clock, self.state_us = clock, state_us

    def update_groups(self, rows: pa.Table, starts):
        self.clock.now_s += rows.num_rows * 30e-6 + (len(starts) - 1) * self.state_us * 1e-6
        return pa.table({"n": np.diff(starts)})


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("skewless.spark.auto.time", made)
    return made


@pytest.mark.parametrize("state_us", [0.0, 500.0, 3_000.0])
def test_the_costs_of_a_row_and_of_a_state_are_told_apart(clock, state_us) -> None:
    rows, base = pa.table({"id": np.arange(400)}), skewless.costs.calibrate()
    aggregator = prepared(OnTheClock(clock, state_us), rows)
    costs = measure(aggregator, rows, np.array([0, 300, 400]), budget_s=2.0)
    assert costs.update_us - base.update_us == pytest.approx(30.0)
    shipped_us = costs.merge_us - base.merge_us - state_us  # 8 bytes a state
    assert 0 <= shipped_us < 1
    assert costs.joined_us == 0.0, "Spark adds the counts"
    assert (costs.route_us, costs.ship_us) == (base.route_us, base.ship_us)


def test_rows_of_which_most_are_a_group_of_their_own_are_timed_as_one_group_too(clock) -> None:
    # Twenty rows share a group: that one difference would tell the cost of a state by twenty.
    rows, base = pa.table({"id": np.arange(400)}), skewless.costs.calibrate()
    starts = np.append(np.arange(0, 381), 400)
    aggregator = prepared(OnTheClock(clock, 500.0), rows)
    asked = []
    aggregator.update_groups = lambda rows, starts, ask=aggregator.update_groups: (
        asked.append(len(starts) - 1) or ask(rows, starts)
    )
    costs = measure(aggregator, rows, starts, budget_s=2.0)
    assert asked[-1] == 1
    assert costs.update_us - base.update_us == pytest.approx(30.0)
    assert costs.merge_us - base.merge_us == pytest.approx(500.0, abs=1)


class JoinedOnTheClock(OnTheClock):
    """Python puts the states together, which takes 700 us of the clock's time each."""

    merges = {}

    def merge_groups(self, states: pa.Table, starts):
        self.clock.now_s += states.num_rows * 700e-6
        return pa.table({"n": np.add.reduceat(states["n"].to_numpy(), starts[:-1])})


def test_what_joining_states_takes_is_a_part_of_merging(clock) -> None:
    rows, base = pa.table({"id": np.arange(400)}), skewless.costs.calibrate()
    aggregator = prepared(JoinedOnTheClock(clock, 500.0), rows)
    costs = measure(aggregator, rows, np.array([0, 300, 400]), budget_s=2.0)
    assert costs.joined_us == pytest.approx(700.0)
    assert costs.merge_us - base.merge_us == pytest.approx(1_200.0, abs=1)


def test_no_rows_cost_what_the_model_says() -> None:
    rows = pa.table({"id": np.arange(0)})
    assert measure(Counted(), rows, np.zeros(1, np.int64)) == skewless.costs.calibrate()


def choice(df: DataFrame, aggregator: skewless.Aggregator, workers: int):
    return choose(df, resolve_keys("test", df, ["k"]), aggregator, workers)


def test_a_hot_key_with_small_states_is_combined_where_it_is_or_cut(
    hot, clock, monkeypatch
) -> None:
    monkeypatch.setattr("skewless.spark.auto.slots_of", lambda df: 16)
    found = choice(hot, OnTheClock(clock, 0.0), 16)
    by_name = {one.policy: one for one in found.outcomes}
    assert found.policy == "wrap_around"  # the rows lie in two tasks only
    assert by_name["hash"].max_over_mean > 7
    assert by_name["local"].predicted_s > 5 * by_name["wrap_around"].predicted_s


def test_with_few_slots_an_uneven_load_costs_nothing(hot, clock, monkeypatch) -> None:
    monkeypatch.setattr("skewless.spark.auto.slots_of", lambda df: 1)
    assert choice(hot.repartition(8, "id"), OnTheClock(clock, 0.0), 16).policy in ("hash", "local")


def test_even_keys_are_hashed_where_states_are_dear(spark, clock, monkeypatch) -> None:
    monkeypatch.setattr("skewless.spark.auto.slots_of", lambda df: 8)
    even = spark.range(0, 50_000, 1, 8).select((F.col("id") % 1_000).alias("k"), "id")
    assert choice(even, OnTheClock(clock, 3_000.0), 8).policy == "hash"


def test_explain_says_what_was_measured_predicted_and_chosen(hot) -> None:
    groups = skewless.group_by(hot, "k", workers=8)
    found = {r.k: r.total for r in groups.aggregate(Counted()).collect()}
    assert found[0] == 100_000
    assert sum(found.values()) == 200_000
    told = groups.explain()
    for part in ("chosen by 'auto'", "us a row", "predicted: local", "wrap_around", "max/mean"):
        assert part in told


@pytest.mark.classic  # Connect does not say in how many tasks a frame lies
def test_states_that_cost_nothing_are_combined_where_they_are_and_no_key_is_counted(
    hot, clock, monkeypatch
) -> None:
    monkeypatch.setattr("skewless.spark.auto.slots_of", lambda df: 2)
    few = hot.select((F.col("k") % 5).alias("k"), "id")
    groups = skewless.group_by(few, "k", workers=4)
    found = {r.k: r.total for r in groups.aggregate(OnTheClock(clock, 0.0)).collect()}
    assert sum(found.values()) == 200_000
    told = groups.explain()
    assert "local, chosen by 'auto': making and merging states costs next to nothing" in told
    assert "keys were not counted" in told


@pytest.mark.parametrize("frame", ["few tasks", "shuffled before", "dear states", "many keys"])
def test_keys_are_counted_where_combining_in_place_could_cost(
    hot, clock, monkeypatch, frame
) -> None:
    slots = 16 if frame == "few tasks" else 2
    monkeypatch.setattr("skewless.spark.auto.slots_of", lambda df: slots)
    rows = hot.select((F.col("id") % (4_000 if frame == "many keys" else 5)).alias("k"), "id")
    if frame == "shuffled before":
        rows = rows.repartition(4)
    state_us = {"dear states": 3_000.0, "many keys": 10.0}.get(frame, 0.0)
    assert choice(rows, OnTheClock(clock, state_us), 4).outcomes
