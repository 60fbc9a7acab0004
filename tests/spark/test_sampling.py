"""A sample stands for its frame: chances, weights, and plans made from it, beside exact counts."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless.keys import hash64
from skewless.spark import sampling
from skewless.spark.batch import count, estimate
from skewless.spark.join import Join
from skewless.spark.join_counts import count_pairs
from skewless.spark.join_keys import read_on
from skewless.spark.join_sample import estimate_pairs
from skewless.spark.keys import resolve_keys
from skewless.spark.sampling import chao1, sample, sampled
from skewless.spark.versions import first_rows, to_arrow
from tests.spark.comparison import assert_same_rows


@pytest.fixture(autouse=True)
def no_broadcast(spark: SparkSession):
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


@pytest.fixture
def few(monkeypatch) -> None:
    """Samples of so few rows that small frames are not taken whole."""
    monkeypatch.setattr(sampling, "_AT_LEAST", 800)
    monkeypatch.setattr(sampling, "_PER_WORKER", 100)
    monkeypatch.setattr(sampling, "_PER_TASK_AT_LEAST", 8)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """40,000 rows, sorted by key: 30 % have key 1, 5 % key 2, the others 500 keys."""
    n = F.col("id")
    key = F.when(n < 12_000, 1).when(n < 14_000, 2).otherwise(n % 500 + 10)
    return spark.range(0, 40_000, 1, 4).select(key.alias("k"), n.alias("a"))


def test_the_first_rows_of_each_task_are_taken_for_sure_and_late_ones_stand_for_more(
    monkeypatch, rows
) -> None:
    def query(n_sure: int) -> DataFrame:
        assert n_sure == 50
        some, at = sampled(rows, n_sure)
        return some.select("a", at.alias("at"))

    monkeypatch.setattr(sampling, "_AT_LEAST", 200)
    monkeypatch.setattr(sampling, "_PER_TASK_AT_LEAST", 1)
    found = sample(query, 0, rows)
    taken = found.rows.column("a").to_numpy()
    ordinal = taken % 10_000 + 1  # a task has 10,000 rows, in order
    np.testing.assert_allclose(found.weights, np.maximum(1.0, ordinal / 50))
    for task in range(4):
        mine = taken[taken // 10_000 == task]
        assert set(range(task * 10_000, task * 10_000 + 50)) <= set(mine.tolist())
        assert len(mine) == pytest.approx(50 * (1 + math.log(200)), rel=0.2)
    assert len(np.unique(taken)) == len(taken)
    assert found.weights.sum() == pytest.approx(40_000, rel=0.15)
    assert (found.tasks, found.complete) == (4, False)


def test_few_rows_are_taken_whole_and_counted_exactly(rows) -> None:
    keys = resolve_keys("test", rows, ["k"])
    few, every = estimate(rows, keys, 4), count(rows, keys, 4)
    np.testing.assert_array_equal(few.histogram.keys, every.histogram.keys)
    np.testing.assert_array_equal(few.histogram.counts, every.histogram.counts)
    np.testing.assert_array_equal(few.histogram.tail, every.histogram.tail)
    assert (few.rows, few.distinct, few.tasks) == (every.rows, every.distinct, 4)


def test_a_sorted_frame_is_estimated_in_proportion(few, rows) -> None:
    found = estimate(rows, resolve_keys("test", rows, ["k"]), 4)
    hot = {int(h): n for h, n in zip(found.histogram.keys, found.histogram.counts, strict=True)}
    one, two = (int(h) for h in hash64(pa.array([1, 2])))
    assert hot[one] == pytest.approx(12_000, rel=0.15)
    assert hot[two] == pytest.approx(2_000, rel=0.3)
    assert found.rows == pytest.approx(40_000, rel=0.1)
    assert 400 <= found.distinct <= 700


def test_a_frame_that_turns_out_to_lie_in_few_tasks_is_sampled_again(few, spark, rows) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "64")
    try:
        found = estimate(rows.repartition("a"), resolve_keys("test", rows, ["k"]), 4)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "4")
    assert found.tasks <= 4  # adaptive execution puts so few bytes together
    assert found.sampled >= 800


def test_weighted_rows_are_all_counted(few, rows) -> None:
    found = estimate(rows, resolve_keys("test", rows, ["k"]), 4, weight=F.col("a"))
    assert found.histogram.total == sum(range(40_000))


def test_a_plan_from_a_sample_is_even(few, monkeypatch, rows) -> None:
    monkeypatch.setattr(sampling, "_PER_WORKER", 500)
    even = skewless.repartition(rows, "k", workers=8)
    loads = [r[1] for r in even.groupBy(F.spark_partition_id()).count().collect()]
    assert max(loads) <= 1.2 * 40_000 / 8
    assert_same_rows(even, rows)


def test_no_rows(spark) -> None:
    empty = spark.createDataFrame([], "k string")
    found = estimate(empty, resolve_keys("test", empty, ["k"]), 8)
    assert (len(found.histogram), found.rows, found.distinct) == (0, 0, 0)


def test_distinct_keys_are_estimated_from_those_met_once_and_twice() -> None:
    rng = np.random.default_rng(0)
    _, met = np.unique(rng.integers(0, 5_000, 3_000), return_counts=True)
    assert chao1(met) == pytest.approx(5_000, rel=0.1)


# -- joins ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other(spark: SparkSession) -> DataFrame:
    """A row for each key, three of key 2, and some with a null key."""
    n = F.col("id")
    return spark.range(0, 612, 1, 3).select(
        F.when(n < 2, 2).when(n < 600, n).alias("k"), n.alias("b")
    )


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_a_small_join_is_counted_exactly(rows, other, how) -> None:
    keys = read_on(rows, other, "k")
    every = count_pairs(rows, other, keys, how, 4, None)
    found = estimate_pairs(rows, other, keys, how, 4)
    for mine, theirs in zip(found.counts, every.counts, strict=True):
        np.testing.assert_allclose(mine, theirs)
    assert (found.null_rows, found.sampled, found.counted) == (every.null_rows, 0, 0)
    assert every.null_rows == (0, 12)


@pytest.mark.parametrize("how", ["inner", "full", "semi"])
def test_keys_that_matter_are_counted_after_the_sample(few, rows, other, how) -> None:
    keys = read_on(rows, other, "k")
    found = estimate_pairs(rows, other, keys, how, 4)
    one, two = (int(h) for h in hash64(pa.array([1, 2])))
    left = dict(zip(found.counts.keys.tolist(), found.counts.left.tolist(), strict=True))
    right = dict(zip(found.counts.keys.tolist(), found.counts.right.tolist(), strict=True))
    assert (left[one], left[two]) == (12_000, 2_000)
    assert (right[one], right[two]) == (0, 1 if how == "semi" else 3)
    assert found.sampled > 0
    assert found.counted >= 2
    every = count_pairs(rows, other, keys, how, 4, None)
    whole = every.counts.work.sum() + every.counts.tail.sum()
    assert found.counts.work.sum() + found.counts.tail.sum() == pytest.approx(whole, rel=0.1)
    joined = skewless.join(rows, other, "k", how, policy="split", workers=8)
    assert_same_rows(joined, rows.join(other, "k", how))


def test_even_keys_are_left_to_spark_and_none_is_counted(few, spark) -> None:
    n = F.col("id")
    left, right = (spark.range(0, 40_000, 1, 4).select(n.alias("k"), n.alias(c)) for c in "ab")
    told = Join(left, right, "k", workers=4).explain()
    assert "left to Spark: its hash places the keys evenly enough" in told
    assert "rows and count 0 keys" in told


def test_a_part_that_the_user_asks_for_is_scaled_to_the_whole(rows, other) -> None:
    report = skewless.inspect(rows, rows.limit(14_000), on="k", workers=4, sample=0.1)
    assert report.rows[0] == pytest.approx(40_000, rel=0.05)
    assert report.top[0].output == pytest.approx(12_000**2, rel=0.2)


def test_first_rows_keep_their_types_and_come_from_as_few_tasks_as_hold_them(spark) -> None:
    frame = spark.range(0, 800, 1, 8).selectExpr(
        "id",
        "spark_partition_id() AS task",
        "if(id % 3 = 0, null, cast(id AS decimal(38, 9)) / 7) AS d",
        "timestamp_micros(id - 5000000000000000) AS ts",
        "timestamp_ntz'1969-12-31 23:59:59.999999' AS ntz",
        "date_from_unix_date(cast(id AS int) - 100000) AS day",
        "make_dt_interval(0, 1, 2, id) AS took",
        "cast(string(id) AS binary) AS bytes",
        "named_struct('a', array(id, null), 'm', map('k', struct(cast(id AS float)))) AS nested",
        "if(id % 2 = 0, double('NaN'), -0.0D) AS x",
        "cast(null AS void) AS nothing",
    )
    found = first_rows(frame, 50)
    assert found.num_rows == 50
    assert set(found["task"].to_pylist()) == {0}
    expected = to_arrow(frame.where("id < 50"))
    assert found.schema.types == expected.schema.types
    assert repr(found.to_pylist()) == repr(expected.to_pylist())  # NaN is no NaN
    assert first_rows(frame, 2_000).num_rows == 800
    assert first_rows(frame.where("id < 0"), 5).num_rows == 0
