"""The salt of a row is the same whenever Spark computes it again, and still spreads a hot key."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skewless.spark.salt import order_repeats, salt_column


@pytest.fixture(scope="module")
def stored(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    folder = tmp_path_factory.mktemp("salt") / "rows"
    frame = spark.range(3_000, numPartitions=3).selectExpr("'hot' as k", "id", "id % 5 as v")
    frame.write.parquet(str(folder))
    return spark.read.parquet(str(folder))


SCANS = {
    "files": lambda df: df,
    "filtered": lambda df: df.where("id > 5").select("k", "id"),
    "derived": lambda df: df.withColumn("w", F.col("v") + 1).drop("v"),
    "exploded": lambda df: df.withColumn("e", F.explode(F.array("id", "v"))),
    "united": lambda df: df.union(df),
    "coalesced name": lambda df: df.alias("x").select("x.id"),
    "hinted": lambda df: df.hint("broadcast"),
    "checkpointed": lambda df: df.repartition(3, "id").localCheckpoint(),  # kept, not computed anew
}

SHUFFLES = {
    "repartitioned": lambda df: df.repartition(3, "id"),
    "grouped": lambda df: df.groupBy("id").count(),
    "distinct": lambda df: df.distinct(),
    "sorted": lambda df: df.orderBy("id"),
    "joined": lambda df: df.join(df.select("id"), "id"),
    "ranked": lambda df: df.selectExpr("id", "row_number() over (partition by k order by id) as r"),
    "limited": lambda df: df.limit(10),
    "united with a shuffle": lambda df: df.union(df.repartition(2)),
    "to be checkpointed": lambda df: df.repartition(3, "id").localCheckpoint(eager=False),
    "a frame over a shuffled RDD": lambda df: df.rdd.repartition(2).toDF(df.schema),
}


@pytest.mark.parametrize("form", SCANS)
def test_the_order_above_a_scan_repeats(stored: DataFrame, form: str) -> None:
    assert order_repeats(SCANS[form](stored))


@pytest.mark.parametrize(
    "form", [pytest.param(f, marks=[pytest.mark.classic] * ("RDD" in f)) for f in SHUFFLES]
)
def test_the_order_behind_a_shuffle_may_differ(stored: DataFrame, form: str) -> None:
    assert not order_repeats(SHUFFLES[form](stored))


def test_rows_made_on_the_driver_and_ranges_repeat(spark: SparkSession) -> None:
    assert order_repeats(spark.range(5))
    assert order_repeats(spark.createDataFrame([(1,)], "k int"))


def _salts(df: DataFrame, seed: int = 0) -> dict[int, int]:
    salt, _ = salt_column(df, seed)
    rows = df.select("id", salt.alias("salt")).collect()
    found = {row["id"]: row["salt"] for row in rows}
    assert len(found) == len(rows)
    return found


def test_behind_a_shuffle_the_salt_does_not_depend_on_the_order_of_rows(stored: DataFrame) -> None:
    once = _salts(stored.repartition(3, "id"))
    again = _salts(stored.orderBy(F.desc("id")).repartition(5, "v"))
    assert once == again
    assert len(set(once.values())) > 2_900
    _, sentence = salt_column(stored.repartition(3, "id"), 0)
    assert "hash of the row" in sentence


def test_above_a_scan_each_run_gives_the_same_salt(stored: DataFrame) -> None:
    assert _salts(stored) == _salts(stored)
    _, sentence = salt_column(stored, 0)
    assert "position in the scan" in sentence


@pytest.mark.parametrize("shuffled", [False, True])
def test_salts_are_not_negative_depend_on_the_seed_and_spread(
    stored: DataFrame, shuffled: bool
) -> None:
    frame = stored.repartition(3, "id") if shuffled else stored
    first, other = _salts(frame, 0), _salts(frame, 2**63 - 1)
    assert min(first.values()) >= 0
    assert max(first.values()) < 2**31
    assert first != other
    for n in (2, 7, 8, 64):
        dealt = np.bincount(np.array(list(first.values())) % n, minlength=n)
        assert (dealt > 0).all()
        mean = 3_000 / n
        assert np.abs(dealt - mean).max() < 5 * np.sqrt(mean)


def test_a_hot_key_has_many_salts_though_they_say_nothing_of_the_key(stored: DataFrame) -> None:
    # Rows of one key: a salt made of the key alone would be one number.
    assert len(set(_salts(stored).values())) > 2_900


def test_identical_rows_above_a_scan_get_different_salts(stored: DataFrame) -> None:
    same = stored.select("k")
    salt, _ = salt_column(same, 0)
    assert same.select((salt % 8).alias("s")).distinct().count() == 8
