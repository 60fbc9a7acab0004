"""What may be split is split, what may not is kept whole, and an aggregator that lies is found out."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless import Routing
from skewless.errors import DataError, ParameterError
from skewless.spark.whole import whole_of
from tests.spark.comparison import assert_same_groups, assert_same_rows, partition_sizes


@pytest.fixture(scope="module")
def ordered(spark: SparkSession) -> DataFrame:
    """One map task, so that plain Spark's order is that of the rows; one key has 95 % of them.

    Few keys: from 128 on, Spark sorts them, and its order is then no longer that of the rows.
    """
    n = F.col("id")
    frame = spark.range(0, 2_000, 1, 1)
    return frame.select(F.when(n % 20 > 0, "hot").otherwise(F.concat(F.lit("c"), n)).alias("k"), n)


def by_order():
    return [
        F.first("id"),
        F.last("id"),
        F.collect_list("id"),
        F.max_by("id", F.lit(1)),
        F.any_value("id"),
    ]


@pytest.mark.parametrize("policy", ["wrap_around", "shuffle"])
def test_aggregates_that_depend_on_the_order_of_rows_keep_keys_whole(ordered, policy) -> None:
    groups = skewless.group_by(ordered, "k", policy=policy, workers=4)
    found = groups.agg(*by_order())
    assert_same_groups(found, ordered.groupBy("k").agg(*by_order()), 1)
    lists = {r.k: r[3] for r in found.collect()}
    assert lists["hot"] == sorted(lists["hot"])
    assert "kept whole: first, last, collect_list, max_by, any_value" in groups.explain()


def test_strict_refuses_to_keep_them_whole_silently(ordered) -> None:
    groups = skewless.group_by(ordered, "k", policy="wrap_around", workers=4, strict=True)
    with pytest.raises(ParameterError, match="collect_list depends on the order of rows"):
        groups.agg(F.collect_list("id"))
    with pytest.raises(ParameterError, match="first depends"):
        groups.agg({"id": "first"})
    assert groups.agg(F.sum("id")).count() == 101
    whole = skewless.group_by(ordered, "k", policy="off_greedy", workers=4, strict=True)
    assert whole.agg(F.collect_list("id")).count() == 101


def test_a_routing_that_splits_is_made_whole_at_its_greatest_share() -> None:
    routing = Routing(4, {7: {1: 0.5, 3: 0.5}, 9: {0: 1.0}}, [0, 1, 2, 3])
    assert whole_of(routing).hot == {7: {1: 1.0}, 9: {0: 1.0}}
    assert whole_of(Routing.shuffling(4)) == Routing.hashing(4)


def test_an_average_of_averages_is_not_taken(spark) -> None:
    frame = spark.createDataFrame([("a", 10)] * 3 + [("a", 50)], "k string, v int")
    for policy in ("wrap_around", "pkg", "shuffle"):
        found = skewless.group_by(frame, "k", policy=policy, workers=2).agg(F.avg("v")).collect()
        assert [tuple(r) for r in found] == [("a", 20.0)]


def test_distinct_values_are_counted_once_whatever_the_split(spark) -> None:
    n = F.col("id")
    frame = spark.range(0, 1_000, 1, 4).select(F.lit("a").alias("k"), (n % 10).alias("v"))
    for policy in ("wrap_around", "shuffle"):
        found = skewless.group_by(frame, "k", policy=policy, workers=8)
        assert found.agg(F.count_distinct("v")).first()[1] == 10


def test_integers_are_bit_equal_and_floats_within_their_rounding_run_after_run(spark) -> None:
    n = F.col("id")
    frame = spark.range(0, 20_000, 1, 4).select(
        F.lit("a").alias("k"),
        (F.pow(F.lit(10.0), n % 17 - 8) * (n % 7 + 1)).alias("x"),
        (n * 1_000_003).alias("i"),
        (n.cast("decimal(20,4)") / 7).cast("decimal(20,6)").alias("d"),
    )
    columns = [F.sum("i"), F.sum("d"), F.sum("x")]
    groups = skewless.group_by(frame, "k", policy="wrap_around", workers=8)
    assert_same_groups(groups.agg(*columns), frame.groupBy("k").agg(*columns), 1)
    assert_same_rows(groups.agg(F.sum("i"), F.sum("d")), groups.agg(F.sum("i"), F.sum("d")))


class Counted(skewless.Aggregator):
    """Right: merges what update makes."""

    inputs = ("id",)
    state = "n bigint"
    result = "total bigint"
    merges = {"n": "sum"}

    def create(self):
        return {"n": 0}

    def update(self, state, rows: pa.Table):
        return {"n": state["n"] + rows.num_rows}

    def finish(self, state):
        return {"total": state["n"]}


class Forgetful(Counted):
    """Wrong: keeps the larger of two counts."""

    merges = {}

    def merge(self, left, right):
        return max(left, right, key=lambda state: state["n"])


class Native(Counted):
    """Wrong: the native merge is not that of a count."""

    merges = {"n": "max"}


def test_strict_finds_a_merge_that_loses_rows_before_it_is_used(ordered) -> None:
    for wrong in (Forgetful(), Native()):
        groups = skewless.group_by(ordered, "k", policy="wrap_around", workers=4, strict=True)
        with pytest.raises(
            DataError, match="total=634 for 1900 rows of a key in 3 parts, and 1900"
        ):
            groups.aggregate(wrong)
    groups = skewless.group_by(ordered, "k", policy="wrap_around", workers=4, strict=True)
    found = {r.k: r.total for r in groups.aggregate(Counted()).collect()}
    assert found["hot"] == 1_900


def test_one_call_of_update_never_sees_more_than_max_rows_and_four_tasks_share_the_hot_key(
    spark, tmp_path
) -> None:
    folder = str(tmp_path)

    class Noted(Counted):
        max_rows = 1_000

        def update(self, state, rows):
            from pathlib import Path

            from pyspark import TaskContext

            with Path(folder, str(TaskContext.get().partitionId())).open("a") as file:
                file.write(f"{rows.num_rows}\n")
            return super().update(state, rows)

    n = F.col("id")
    frame = spark.range(0, 20_000, 1, 4).select(
        F.when(n % 100 > 0, "hot").otherwise(F.concat(F.lit("c"), n)).alias("k"), n
    )
    found = skewless.group_by(frame, "k", policy="wrap_around", workers=8).aggregate(Noted())
    assert found.where("k = 'hot'").first().total == 19_800
    calls = {p.name: list(map(int, p.read_text().split())) for p in tmp_path.iterdir()}
    assert max(map(max, calls.values())) <= 1_000
    rows = [sum(sizes) for sizes in calls.values()]
    assert len(rows) == 8
    assert max(rows) <= 1.2 * sum(rows) / 8


class Folded(Counted):
    """A fold over the rows in small calls: what a stream over groupByKey would be, in bounded memory."""

    state = "n bigint, most bigint, bits bigint"
    result = "total bigint, largest bigint, mixed bigint"
    merges = {"n": "sum", "most": "max", "bits": "bit_xor"}
    max_rows = 5_000

    def create(self):
        return {"n": 0, "most": -1, "bits": 0}

    def update(self, state, rows: pa.Table):
        assert rows.num_rows <= 5_000
        bits = state["bits"]
        for value in rows["id"].to_pylist():
            bits ^= value * 31
        most = max(state["most"], *rows["id"].to_pylist())
        return {"n": state["n"] + rows.num_rows, "most": most, "bits": bits}

    def finish(self, state):
        return {"total": state["n"], "largest": state["most"], "mixed": state["bits"]}


@pytest.mark.classic
def test_a_fold_over_one_huge_key_equals_reduce_by_key(spark) -> None:
    frame = spark.range(0, 60_000, 1, 4).select(F.lit("hot").alias("k"), F.col("id"))
    pairs = frame.rdd.map(lambda row: (row.k, (1, row.id, row.id * 31)))
    expected = pairs.reduceByKey(
        lambda a, b: (a[0] + b[0], max(a[1], b[1]), a[2] ^ b[2]), 2
    ).collect()
    found = skewless.group_by(frame, "k", policy="wrap_around", workers=4).aggregate(Folded())
    assert [tuple(row) for row in found.collect()] == [(k, *fold) for k, fold in expected]


@pytest.mark.parametrize(("n_rows", "n_hot"), [(10_000, 9_900), (200_000, 180_000)])
def test_the_heavy_stage_is_even_though_a_key_has_nine_tenths_of_the_rows_or_more(
    spark, n_rows, n_hot
) -> None:
    n = F.col("id")
    frame = spark.range(0, n_rows, 1, 8).select(F.when(n < n_hot, -1).otherwise(n).alias("k"), n)
    sizes = partition_sizes(skewless.repartition(frame, "k", policy="wrap_around", workers=8))
    assert max(sizes) <= 1.2 * n_rows / 8
