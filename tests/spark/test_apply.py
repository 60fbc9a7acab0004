"""Functions over whole groups: Spark's own answer, wherever the groups are placed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless import Routing
from skewless.errors import DataError, ParameterError
from skewless.spark.whole import enough_as_spark_hashes
from tests.spark.comparison import assert_same_rows, needs, physical_plan

SCHEMA = "k string, n long, biggest_gap double"


@pytest.fixture(scope="module")
def hot(spark: SparkSession) -> DataFrame:
    """Give half of the rows to one key, and some to null; columns named like the library's own."""
    n = F.col("id")
    return spark.range(0, 4_000, 1, 4).select(
        F.when(n < 2_000, "hot")
        .when(n < 2_100, None)
        .otherwise(F.concat(F.lit("c"), n % 90))
        .alias("k"),
        (n % 2).cast("boolean").alias("half"),
        (n * 7 % 1_001).cast("double").alias("v"),
        n.alias("_worker"),
        n.alias("salt"),
    )


@pytest.fixture(scope="module")
def even(spark: SparkSession) -> DataFrame:
    """Give every key as many rows, and so many keys that any hash is balanced."""
    n = F.col("id")
    key = F.when(n % 1_000 != 1, F.concat(F.lit("c"), n % 1_000))
    return spark.range(0, 4_000, 1, 4).select(
        key.alias("k"), (n * 7 % 1_001).cast("double").alias("v"), n.alias("salt")
    )


def gaps(rows: pd.DataFrame) -> pd.DataFrame:
    ordered = rows.sort_values(["v", "salt"])
    gap = ordered["v"].diff().max()
    key = rows["k"].iloc[0]
    return pd.DataFrame({"k": [key], "n": [len(rows)], "biggest_gap": [gap]})


def keyed_gaps(key, rows):
    assert len(key) == 1
    assert (rows["k"].isna() if key[0] is None else rows["k"] == key[0]).all()
    return gaps(rows)


def arrow_rows(rows: pa.Table) -> pa.Table:
    return pa.table(
        {
            "k": rows["k"].slice(0, 1),
            "n": [rows.num_rows],
            "biggest_gap": [float(rows["salt"].to_numpy().max())],
        }
    )


def keyed_batches(key: tuple[Any, ...], batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    n = sum(len(batch) for batch in batches)
    yield pd.DataFrame({"k": [key[0]], "n": [n], "biggest_gap": [0.0]})


def arrow_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict(
            {"k": batch["k"].slice(0, 1), "n": [0], "biggest_gap": [1.0]}
        )


@pytest.mark.parametrize("policy", ["auto", "spark", "hash", "off_greedy", "kip", "dalton"])
def test_a_function_sees_whole_groups_as_in_plain_spark(hot, policy) -> None:
    found = skewless.group_by(hot, "k", policy=policy, workers=4).apply(gaps, SCHEMA)
    assert_same_rows(found, hot.groupBy("k").applyInPandas(gaps, SCHEMA))


@pytest.mark.parametrize("function", [keyed_gaps, arrow_rows, keyed_batches, arrow_batches])
def test_every_form_of_function_equals_plain_spark(hot, function) -> None:
    arrow = function in (arrow_rows, arrow_batches)
    if function in (keyed_batches, arrow_batches):
        needs(hot, 4, 1, "hands over batches")
    if arrow:
        needs(hot, 4, 0, "hands over Arrow")
    found = skewless.group_by(hot, "k", policy="off_greedy", workers=3).apply(function, SCHEMA)
    groups = hot.groupBy("k")
    plain = groups.applyInArrow if arrow else groups.applyInPandas
    assert_same_rows(found, plain(function, SCHEMA))


def test_the_form_can_be_named_where_there_are_no_hints(hot) -> None:
    needs(hot, 4, 0, "hands over Arrow")

    def bare(rows):
        return arrow_rows(rows)

    groups = skewless.group_by(hot, "k", workers=3)
    expected = hot.groupBy("k").applyInArrow(arrow_rows, SCHEMA)
    assert_same_rows(groups.apply(bare, SCHEMA, form="arrow"), expected)


def test_the_function_gets_the_frame_s_columns_and_no_more(hot) -> None:
    def columns(rows):
        return pd.DataFrame({"names": [",".join(rows.columns)]})

    found = skewless.group_by(hot, "k", "half", policy="off_greedy", workers=3)
    names = {row.names for row in found.apply(columns, "names string").collect()}
    assert names == {"k,half,v,_worker,salt"}


def test_no_second_exchange_follows_the_placing(hot, even) -> None:
    found = skewless.group_by(hot, "k", policy="off_greedy", workers=4).apply(gaps, SCHEMA)
    assert physical_plan(found).count("Exchange") == 1
    found = skewless.group_by(even, "k", workers=4).apply(gaps, SCHEMA)
    assert physical_plan(found).count("Exchange") == 1


@pytest.mark.parametrize("function", [keyed_gaps, arrow_rows, keyed_batches, arrow_batches])
def test_even_groups_are_left_to_spark_and_no_row_carries_a_worker(even, function) -> None:
    if function in (keyed_batches, arrow_batches):
        needs(even, 4, 1, "hands over batches")
    arrow = function in (arrow_rows, arrow_batches)
    if arrow:
        needs(even, 4, 0, "hands over Arrow")
    groups = skewless.group_by(even, "k", workers=4)
    found = groups.apply(function, SCHEMA)
    assert "worker" not in physical_plan(found).replace("_worker", "")
    plain = even.groupBy("k")
    assert_same_rows(
        found, (plain.applyInArrow if arrow else plain.applyInPandas)(function, SCHEMA)
    )
    assert "plain hashing is balanced within a tenth" in groups.explain_apply()


def test_the_balance_that_explain_promises_is_that_of_spark_s_own_hash(even) -> None:
    def where(rows):
        from pyspark import TaskContext

        return pd.DataFrame({"task": [TaskContext.get().partitionId()], "n": [len(rows)]})

    groups = skewless.group_by(even, "k", workers=4)
    tasks = groups.apply(where, "task int, n long").groupBy("task").agg(F.sum("n").alias("n"))
    loads = [row.n for row in tasks.collect()]
    assert len(loads) == 4, "a number of partitions is given, so that none are merged"
    assert f"max/mean {max(loads) * 4 / sum(loads):.2f} over" in groups.explain_apply()


def test_uneven_tasks_are_left_to_spark_only_where_they_take_turns() -> None:
    even, uneven = np.full(8, 10.0), np.array([14.0, 12.0, 10.0, 10.0, 9.0, 9.0, 8.0, 8.0])
    assert "take turns on 2 slots" in enough_as_spark_hashes(uneven, even, 2)
    assert not enough_as_spark_hashes(uneven, even, 8)
    assert not enough_as_spark_hashes(uneven, even, None), "Connect does not say"
    worse = np.array([16.0, 10.0, 10.0, 10.0, 9.0, 9.0, 8.0, 8.0])
    assert not enough_as_spark_hashes(worse, even, 2), "slots may be more when the job runs"
    heavy = np.array([50.0, 5.0, 5.0, 5.0, 5.0, 4.0, 3.0, 3.0])
    assert "less than a tenth" in enough_as_spark_hashes(heavy + 1, heavy, None)
    assert "balanced" in enough_as_spark_hashes(even, even, None)


def test_without_a_policy_of_ours_spark_places_the_groups(hot) -> None:
    found = skewless.group_by(hot, "k", policy="spark").apply(gaps, SCHEMA)
    assert "__skewless" not in physical_plan(found)


def test_heavy_groups_do_not_share_a_task(spark) -> None:
    # Eight groups of equal weight for eight tasks: hashing uses five of them, a plan all eight.
    frame = spark.range(0, 800, 1, 4).select((F.col("id") % 8).alias("k"))

    def where(rows):
        from pyspark import TaskContext

        return pd.DataFrame({"task": [TaskContext.get().partitionId()]})

    found = skewless.group_by(frame, "k", workers=8).apply(where, "task int").collect()
    assert sorted(row.task for row in found) == list(range(8))


def test_weight_places_by_bytes_where_the_rows_are_even(spark) -> None:
    # Four keys of ten rows each; two of them are a thousand times as long.
    n = F.col("id")
    frame = spark.range(0, 40, 1, 2).select(
        (n % 4).alias("k"), F.expr("repeat('x', if(id % 4 < 2, 10000, 10))").alias("t")
    )

    def where(key, rows):
        from pyspark import TaskContext

        return pd.DataFrame({"k": [key[0]], "task": [TaskContext.get().partitionId()]})

    for weight in ("bytes", F.length("t"), F.length("t") / 3):
        groups = skewless.group_by(frame, "k", policy="off_greedy", workers=2, weight=weight)
        task = {row.k: row.task for row in groups.apply(where, "k long, task int").collect()}
        assert task[0] != task[1]


def test_explain_says_what_a_group_that_cannot_be_split_costs(hot) -> None:
    text = skewless.group_by(hot, "k", workers=4).explain_apply()
    assert "heaviest group is 2.0 fair shares (50.0 % of all)" in text
    assert "Aggregator" in text


def test_a_policy_that_splits_falls_back_and_says_so_or_is_refused(hot) -> None:
    groups = skewless.group_by(hot, "k", policy="pkg", workers=4)
    assert "splits keys, which a function over whole groups forbids" in groups.explain_apply()
    strict = skewless.group_by(hot, "k", policy="pkg", workers=4, strict=True)
    with pytest.raises(ParameterError, match="splits keys, and a function takes whole groups"):
        strict.apply(gaps, SCHEMA)


def test_what_cannot_work_is_refused_before_any_job(hot) -> None:
    groups = skewless.group_by(hot, "k", workers=4)
    with pytest.raises(DataError, match="takes 3 arguments"):
        groups.apply(lambda a, b, c: a, SCHEMA)
    with pytest.raises(DataError, match="takes a function, got str"):
        groups.apply("gaps", SCHEMA)
    with pytest.raises(DataError, match="form must be one of"):
        groups.apply(gaps, SCHEMA, form="polars")
    with pytest.raises(DataError, match="schema must be"):
        groups.apply(gaps, ["k"])
    with pytest.raises(ParameterError, match="'local' combines parts"):
        skewless.group_by(hot, "k", policy="local").apply(gaps, SCHEMA)
    split = Routing(2, {5: {0: 0.5, 1: 0.5}}, [0, 1])
    with pytest.raises(ParameterError, match="the routing splits keys"):
        skewless.group_by(hot, "k", policy=split, strict=True).apply(gaps, SCHEMA)
    assert "stays whole" in skewless.group_by(hot, "k", policy=split).explain_apply()
    with pytest.raises(DataError, match="weight must be numeric, got string"):
        skewless.group_by(hot, "k", weight="k")
    with pytest.raises(DataError, match="'w' is not in the frame"):
        skewless.group_by(hot, "k", weight="w")


def test_an_error_in_the_function_names_the_key(hot) -> None:
    def fails(rows):
        if rows["k"].iloc[0] == "c7":
            raise ValueError("seven is too many")
        return gaps(rows)

    groups = skewless.group_by(hot, "k", policy="hash", workers=4)
    with pytest.raises(Exception, match="fails raised ValueError for key 'c7': seven is too many"):
        groups.apply(fails, SCHEMA).collect()


def test_another_schema_than_declared_names_the_key_and_the_columns(hot) -> None:
    def other(rows):
        return gaps(rows).rename(columns={"n": "m"})

    groups = skewless.group_by(hot, "k", policy="hash", workers=4)
    with pytest.raises(Exception, match=r"other returned the columns \['k', 'm', 'biggest_gap'\]"):
        groups.apply(other, SCHEMA).collect()
    with pytest.raises(Exception, match=r"must return a pandas\.DataFrame, got int"):
        groups.apply(lambda rows: 3, SCHEMA).collect()


def test_negative_weights_are_refused(hot) -> None:
    groups = skewless.group_by(hot, "k", policy="off_greedy", workers=4, weight=-F.col("salt"))
    with pytest.raises(DataError, match="must add up to a number of at least 0"):
        groups.apply(gaps, SCHEMA)


def test_pivot_and_filters_after_it_equal_plain_spark(hot) -> None:
    for policy in ("auto", "wrap_around"):
        found = skewless.group_by(hot, "k", policy=policy, workers=4)
        found = found.pivot("half").agg(F.sum("salt"), F.max("v"))
        plain = hot.groupBy("k").pivot("half").agg(F.sum("salt"), F.max("v"))
        assert_same_rows(found.where("k > 'c3'"), plain.where("k > 'c3'"))
