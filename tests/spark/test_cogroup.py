"""Two frames grouped together: Spark's own answer, also where one side's hot key is split."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless.errors import DataError, ParameterError
from tests.spark.comparison import assert_same_rows, needs

SCHEMA = "k string, id long, matches long, best long"


@pytest.fixture(scope="module")
def left(spark: SparkSession) -> DataFrame:
    """Give 90 % of the rows to one key; some keys are null, some only here."""
    n = F.col("id")
    key = F.when(n < 1_800, "hot").when(n < 1_850, None).otherwise(F.concat(F.lit("c"), n % 40))
    return spark.range(0, 2_000, 1, 4).select(key.alias("k"), n)


@pytest.fixture(scope="module")
def right(spark: SparkSession) -> DataFrame:
    n = F.col("id")
    key = F.when(n < 10, "hot").when(n < 15, None).otherwise(F.concat(F.lit("c"), n % 60))
    return spark.range(0, 100, 1, 2).select(key.alias("key"), (n * 3).alias("w"))


def annotate(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    """Row-wise on the left: each row with what all of the right says about its key."""
    best = int(right["w"].max()) if len(right) else -1
    found = left.assign(matches=len(right), best=best)
    return found[["k", "id", "matches", "best"]]


def annotate_arrow(key, left: pa.Table, right: pa.Table) -> pa.Table:
    n, count = left.num_rows, right.num_rows
    best = max(right["w"].to_pylist(), default=-1)
    return left.append_column("matches", pa.array([count] * n, pa.int64())).append_column(
        "best", pa.array([best] * n, pa.int64())
    )


def both_counts(key, left, right):
    """Not row-wise: one row per key, also for keys that only one side has."""
    return pd.DataFrame({"k": [key[0]], "id": [len(left)], "matches": [len(right)], "best": [0]})


def plain(left, right, function, arrow=False):
    pair = left.groupBy("k").cogroup(right.groupBy("key"))
    return (pair.applyInArrow if arrow else pair.applyInPandas)(function, SCHEMA)


def pair(left, right, policy="auto", workers=4, **options):
    groups = skewless.group_by(left, "k", policy=policy, workers=workers, **options)
    return groups.cogroup(skewless.group_by(right, "key"))


@pytest.mark.parametrize("policy", ["auto", "spark", "hash", "off_greedy"])
def test_whole_groups_of_both_sides_meet(left, right, policy) -> None:
    found = pair(left, right, policy).apply(both_counts, SCHEMA)
    assert_same_rows(found, plain(left, right, both_counts))


@pytest.mark.parametrize("policy", ["auto", "wrap_around", "pkg", "dalton"])
def test_a_function_that_is_row_wise_on_the_left_gives_the_same_rows_split(
    left, right, policy
) -> None:
    found = pair(left, right, policy).apply(annotate, SCHEMA, rowwise="left")
    assert_same_rows(found, plain(left, right, annotate))


def test_arrow_functions_and_the_other_side(left, right) -> None:
    needs(left, 4, 0, "hands over Arrow")
    found = pair(left, right).apply(annotate_arrow, SCHEMA, form="arrow", rowwise="left")
    expected = plain(left, right, annotate_arrow, arrow=True)
    assert_same_rows(found, expected)

    def turned(small, large):
        return annotate(large, small)

    groups = skewless.group_by(right, "key", workers=4).cogroup(skewless.group_by(left, "k"))
    assert_same_rows(groups.apply(turned, SCHEMA, rowwise="right"), expected)


def test_the_hot_key_is_worked_on_by_several_tasks(left, right) -> None:
    needs(left, 4, 1, "works on both sides where they were placed")

    def where(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        from pyspark import TaskContext

        task = TaskContext.get().partitionId()
        return annotate(left, right).assign(best=task)

    found = pair(left, right).apply(where, SCHEMA, rowwise="left")
    loads = {r.best: r["count"] for r in found.groupBy("best").count().collect()}
    assert len(loads) == 4
    assert max(loads.values()) <= 1.2 * 2_000 / 4


def test_what_cannot_work_is_refused(left, right) -> None:
    with pytest.raises(ParameterError, match="splits keys, and a function takes both sides whole"):
        pair(left, right, "wrap_around").apply(annotate, SCHEMA)
    with pytest.raises(ParameterError, match="rowwise must be 'left' or 'right'"):
        pair(left, right).apply(annotate, SCHEMA, rowwise="both")
    with pytest.raises(ParameterError, match="'local' leaves rows where they are"):
        pair(left, right, "local", None).apply(annotate, SCHEMA)
    with pytest.raises(ParameterError, match="would be copied to each"):
        pair(left, right, "shuffle").apply(annotate, SCHEMA, rowwise="left")
    with pytest.raises(DataError, match="takes 1 arguments"):
        pair(left, right).apply(lambda rows: rows, SCHEMA)
    with pytest.raises(DataError, match="over whole frames, got the form 'arrow_batches'"):
        pair(left, right).apply(annotate, SCHEMA, form="arrow_batches")
    groups = skewless.group_by(left, "k")
    with pytest.raises(DataError, match="holds string and 'w' holds bigint; cast"):
        groups.cogroup(skewless.group_by(right, "w"))
    with pytest.raises(DataError, match="as many key columns, got 1"):
        groups.cogroup(skewless.group_by(right, "key", "w"))
    with pytest.raises(DataError, match="takes the groups of a batch frame, got DataFrame"):
        groups.cogroup(right)
