"""Files of one size though a value is hot, and ranges that are even though a value is hot."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless.errors import DataError, ParameterError
from skewless.spark.weights import row_bytes
from tests.spark.comparison import assert_same_rows, partition_sizes
from tests.spark.skewed import skewed_frame


def days(spark: SparkSession, rows: int = 100_000) -> DataFrame:
    """90 % of the rows today, the others over seven days."""
    day = F.when(F.col("id") % 10 > 0, "today").otherwise(
        F.concat(F.lit("d"), (F.col("id") / 10).cast("int") % 7)
    )
    return spark.range(rows, numPartitions=4).select(day.alias("date"), "id", F.lit("x").alias("s"))


def files(folder: Path) -> dict[str, list[int]]:
    """Rows of each file, by the folder of its partition value."""
    found: dict[str, list[int]] = {}
    for path in folder.rglob("*.parquet"):
        found.setdefault(path.parent.name, []).append(pq.read_metadata(path).num_rows)
    return found


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_hot_date_gets_several_files_of_the_target_and_other_dates_one_each(
    spark: SparkSession, tmp_path: Path, shuffled: bool
) -> None:
    frame = days(spark).repartition(3, "id") if shuffled else days(spark)
    laid = skewless.repartition_for_write(frame, "date", target_rows=10_000, workers=8)
    laid.write.partitionBy("date").parquet(str(tmp_path / "out"))
    found = files(tmp_path / "out")
    today = found.pop("date=today")
    assert len(today) >= 6
    assert sum(today) == 90_000
    assert all(5_000 <= size <= 15_000 for size in today)
    assert max(today) <= 1.01 * min(today)
    assert sorted(found) == [f"date=d{i}" for i in range(7)]
    assert all(len(sizes) == 1 for sizes in found.values())
    assert_same_rows(laid, frame)
    sizes = partition_sizes(laid)
    assert len(sizes) == 8
    assert max(sizes) <= 1.5 * np.mean(sizes)


def test_small_targets_are_met_too(spark: SparkSession) -> None:
    frame = days(spark, 2_000)
    laid = skewless.repartition_for_write(frame, "date", target_rows=40)
    at = laid.groupBy("date", F.spark_partition_id().alias("task")).count().collect()
    today = [row["count"] for row in at if row.date == "today"]
    assert len(today) == 36
    assert all(20 <= size <= 60 for size in today)
    assert Counter(row.date for row in at if row.date != "today") == {f"d{i}": 1 for i in range(7)}


def test_bytes_are_what_is_balanced_when_they_are_the_target(spark: SparkSession) -> None:
    frame = days(spark, 8_000).withColumn("s", F.expr("repeat(s, cast(id % 50 * 10 as int))"))
    each = frame.agg(F.sum(row_bytes(frame))).first()[0] // 12
    laid = skewless.repartition_for_write(frame, "date", target_bytes=each, workers=12)
    at = laid.groupBy("date", F.spark_partition_id().alias("task")).agg(F.sum(row_bytes(laid)))
    today = [row[2] for row in at.collect() if row.date == "today"]
    assert len(today) >= 8
    assert all(0.5 * each <= size <= 1.5 * each for size in today)


def test_two_partition_columns_nulls_and_nothing_above_the_target(spark: SparkSession) -> None:
    frame = skewed_frame(spark, 3)
    laid = skewless.repartition_for_write(frame, "k", "j", target_rows=10_000)
    assert_same_rows(laid, frame)
    pairs = laid.select("k", "j", F.spark_partition_id()).distinct()
    assert pairs.count() == frame.select("k", "j").distinct().count()
    assert len(partition_sizes(laid)) == 4


def test_rows_lie_the_same_each_time(spark: SparkSession) -> None:
    frame = days(spark, 5_000)
    runs = [
        sorted(
            map(tuple, skewless.repartition_for_write(f, "date", target_rows=500, workers=12)
                .withColumn("at", F.spark_partition_id()).collect())
        )
        for f in (frame.repartition(3, "id"), frame.repartition(3, "id").sort("s"))
    ]  # fmt: skip
    assert runs[0] == runs[1]  # behind a shuffle the content of a row decides, not its place


def test_too_few_writers_are_refused_with_the_number_that_would_do(spark: SparkSession) -> None:
    with pytest.raises(
        ParameterError, match=r"^repartition_for_write: workers=3, but the heaviest"
    ):
        skewless.repartition_for_write(days(spark, 1_000), "date", target_rows=100, workers=3)
    laid = skewless.repartition_for_write(days(spark, 1_000), "date", target_rows=100)
    assert len(partition_sizes(laid)) == 8


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({}, ParameterError, "give one of target_rows and target_bytes"),
        ({"target_rows": 1, "target_bytes": 1}, ParameterError, "give one of target_rows and"),
        ({"target_rows": 0}, ParameterError, "target_rows must be an int of at least 1, got 0"),
        ({"target_bytes": 1.5}, ParameterError, r"target_bytes must be an int .* got 1\.5"),
        ({"target_rows": 5, "workers": 0}, ParameterError, "workers must be an int of at least 1"),
    ],
)
def test_bad_targets(spark: SparkSession, arguments: dict, error: type, sentence: str) -> None:
    with pytest.raises(error, match=rf"^repartition_for_write: {sentence}"):
        skewless.repartition_for_write(spark.range(3), "id", **arguments)


def test_streams_and_missing_columns_are_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(DataError, match=r"^repartition_for_write: takes a batch DataFrame"):
        skewless.repartition_for_write(stream, "value", target_rows=5)
    with pytest.raises(DataError, match=r"^repartition_by_range: takes a batch DataFrame"):
        skewless.repartition_by_range(stream, 3, "value")
    with pytest.raises(DataError, match=r"^repartition_for_write: give at least one key column"):
        skewless.repartition_for_write(spark.range(3), target_rows=5)
    with pytest.raises(DataError, match=r"^repartition_by_range: order_by is empty"):
        skewless.repartition_by_range(spark.range(3), 3)
    with pytest.raises(
        ParameterError, match=r"^repartition_by_range: n must be an int of at least 1"
    ):
        skewless.repartition_by_range(spark.range(3), 0, "id")


@pytest.fixture(scope="module")
def hot(spark: SparkSession) -> DataFrame:
    """99 % of the rows on one key, 100 keys with one row each."""
    return spark.range(10_000, numPartitions=8).select(
        F.when(F.col("id") < 9_900, "hot").otherwise(F.concat(F.lit("c"), F.col("id"))).alias("k"),
        (F.col("id") % 7).alias("v"),
        F.col("id"),
    )


@pytest.mark.parametrize("tie_break", [None, "id", ["v", "id"]])
def test_a_value_with_99_percent_of_the_rows_fills_all_ranges(hot: DataFrame, tie_break) -> None:
    assert max(partition_sizes(hot.repartitionByRange(8, "k"))) >= 9_900
    cut = skewless.repartition_by_range(hot, 8, F.desc("k"), tie_break=tie_break)
    assert_same_rows(cut, hot)
    sizes = partition_sizes(cut)
    assert len(sizes) == 8
    assert max(sizes) <= 1.5 * np.mean(sizes)
    order = ["k", *([tie_break] if isinstance(tie_break, str) else tie_break or [])]
    parts: list[list[tuple]] = [[] for _ in sizes]
    for row in cut.withColumn("at", F.spark_partition_id()).collect():
        parts[row["at"]].append(tuple(row[name] for name in order))

    def key(row: tuple) -> tuple:  # descending by k, then ascending
        return (tuple(-ord(letter) for letter in row[0].ljust(6, "\0")), *row[1:])

    for before, after in itertools.pairwise(parts):
        assert max(map(key, before)) <= min(map(key, after))


def test_seven_values_into_eight_ranges_use_all_eight(hot: DataFrame) -> None:
    assert partition_sizes(hot.repartitionByRange(8, "v")).count(0) >= 1
    sizes = partition_sizes(skewless.repartition_by_range(hot, 8, "v", tie_break="id"))
    assert min(sizes) > 0
    assert max(sizes) <= 1.5 * np.mean(sizes)


def test_identical_rows_above_a_scan_are_cut_too(spark: SparkSession) -> None:
    same = spark.range(4_000, numPartitions=4).selectExpr("'hot' as k", "1 as v")
    sizes = partition_sizes(skewless.repartition_by_range(same, 4, "k", tie_break="v"))
    assert max(sizes) <= 1.5 * np.mean(sizes)
    frame = skewed_frame(same.sparkSession, 9)
    assert_same_rows(skewless.repartition_by_range(frame, 3, "o", "k"), frame)
