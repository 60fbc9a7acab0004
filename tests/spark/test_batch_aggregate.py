"""Aggregators on batch frames: the answer of Spark's own aggregates, whoever did the work."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from tests.spark.comparison import assert_same_groups, needs, physical_plan


@pytest.fixture(scope="module")
def hot(spark: SparkSession) -> DataFrame:
    """Give 99 % of the rows to one key, and some to null; nested second key."""
    n = F.col("id")
    return spark.range(0, 10_000, 1, 4).select(
        F.when(n < 9_900, "hot")
        .when(n < 9_950, None)
        .otherwise(F.concat(F.lit("c"), n))
        .alias("k"),
        F.struct((n % 2).alias("half")).alias("part"),
        (n % 7).alias("v"),
        F.when(n % 5 == 0, F.lit("five")).otherwise(F.lit("other")).alias("word"),
    )


class Sums(skewless.Aggregator):
    """Count, sum, extremes and the words, in small calls."""

    inputs = ("v", "word")
    state = "n bigint, total bigint, low bigint, high bigint, words array<string>"
    result = "n_rows bigint, mean double, low_v bigint, high_v bigint, kinds array<string>"
    merges = {"n": "sum", "total": "sum", "low": "min", "high": "max", "words": "concat"}
    max_rows = 500

    def create(self):
        return {"n": 0, "total": 0, "low": None, "high": None, "words": []}

    def update(self, state, rows: pa.Table):
        assert rows.column_names == ["v", "word"]
        assert 0 < rows.num_rows <= self.max_rows
        values = rows["v"].to_pylist()
        known = [x for x in (state["low"], state["high"]) if x is not None]
        return {
            "n": state["n"] + len(values),
            "total": state["total"] + sum(values),
            "low": min([*values, *known]),
            "high": max([*values, *known]),
            "words": sorted({*state["words"], *rows["word"].to_pylist()}),
        }

    def finish(self, state):
        return {
            "n_rows": state["n"],
            "mean": state["total"] / state["n"],
            "low_v": state["low"],
            "high_v": state["high"],
            "kinds": sorted(set(state["words"])),
        }


class Extremes(skewless.Aggregator):
    """Merged in Python but for the count; the state is a struct of arrays."""

    inputs = ("v", "word")
    state = "low struct<v: bigint, word: string>, n bigint, seen array<bigint>"
    result = "low_v bigint, low_word string, n_rows bigint, values array<bigint>"
    merges = {"n": "sum"}
    max_rows = 700

    def create(self):
        return {"low": None, "n": 0, "seen": []}

    def update(self, state, rows: pa.Table):
        n = state["n"] + rows.num_rows
        for row in rows.to_pylist():
            state = self.merge(state, {"low": row, "seen": [row["v"]]})
        return {**state, "n": n}

    def merge(self, left, right):
        assert "n" not in left or "n" not in right  # what Spark merges is not given to merge
        lows = [x["low"] for x in (left, right) if x["low"] is not None]
        low = min(lows, key=lambda r: (r["v"], r["word"]))
        return {"low": low, "seen": sorted({*left["seen"], *right["seen"]})}

    def finish(self, state):
        return {
            "low_v": state["low"]["v"],
            "low_word": state["low"]["word"],
            "n_rows": state["n"],
            "values": state["seen"],
        }


class Total(skewless.Aggregator):
    """Count and sum, vectorised: a state per key and buffer."""

    inputs = ("v",)
    state = "n bigint, total decimal(20,2), kinds array<bigint>"
    result = "n_rows bigint, total_v decimal(20,2), values array<bigint>"
    merges = {"n": "sum", "total": "sum", "kinds": "concat"}

    def create(self):
        raise AssertionError

    update = finish = create

    def update_groups(self, rows, starts):
        values = rows["v"].to_numpy()
        return pa.table(
            {
                "n": np.diff(starts),
                "total": [Decimal(x) for x in np.add.reduceat(values, starts[:-1]).tolist()],
                "kinds": [sorted(set(values[a:b].tolist())) for a, b in pairwise(starts)],
            },
            schema=self.state_schema,
        )

    def finish_groups(self, states):
        kinds = [sorted(set(each)) for each in states["kinds"].to_pylist()]
        return pa.table([states["n"], states["total"], kinds], schema=self.result_schema)


def test_keys_that_no_task_shares_are_finished_without_a_second_shuffle(spark) -> None:
    # More rows a task than one buffer holds.
    n = F.col("id")
    frame = spark.range(0, 320_000, 1, 2).select(
        F.when(n % 3 == 0, None).otherwise((n % 1_000).cast("string")).alias("k"),
        (n % 5).cast("int").alias("second"),
        (n % 9).alias("v"),
    )
    needs(frame, 4, 0, "fails on overflow unless it is told not to")
    groups = skewless.group_by(frame, "k", "second", policy="hash", workers=2)
    found = groups.aggregate(Total())
    assert "finished where they are combined: no key is split" in groups.explain()
    assert physical_plan(found).count("Exchange") == 1
    expected = frame.groupBy("k", "second").agg(
        F.count("*").alias("n_rows"),
        F.sum("v").cast("decimal(20,2)").alias("total_v"),
        F.sort_array(F.collect_set("v")).alias("values"),
    )
    assert Counter(map(repr, found.collect())) == Counter(map(repr, expected.collect()))
    assert found.columns == ["k", "second", "n_rows", "total_v", "values"]
    split = skewless.group_by(frame, "k", policy="wrap_around", workers=2)
    split.aggregate(Total())
    assert "finished where" not in split.explain()
    floats = frame.select(F.col("v").cast("double").alias("k"), "v")
    two_stages = skewless.group_by(floats, "k", policy="hash", workers=2)
    two_stages.aggregate(Total())
    assert "although no key is split: Spark has rules of its own" in two_stages.explain()


@pytest.mark.parametrize("policy", ["local", "hash", "wrap_around"])
def test_states_without_a_native_merge_are_merged_in_python(hot, policy) -> None:
    workers = None if policy == "local" else 4
    found = skewless.group_by(hot, "k", policy=policy, workers=workers).aggregate(Extremes())
    expected = hot.groupBy("k").agg(
        F.min(F.struct("v", "word")).alias("low"),
        F.count("*").alias("n_rows"),
        F.sort_array(F.collect_set("v")).alias("values"),
    )
    expected = expected.select("k", "low.v", "low.word", "n_rows", "values")
    ours = {repr(tuple(r)) for r in found.collect()}
    assert ours == {repr(tuple(r)) for r in expected.collect()}


def plain(df: DataFrame, *keys: str) -> DataFrame:
    return df.groupBy(*keys).agg(
        F.count("*").alias("n_rows"),
        F.avg("v").alias("mean"),
        F.min("v").alias("low_v"),
        F.max("v").alias("high_v"),
        F.collect_set("word").alias("kinds"),
    )


@pytest.mark.parametrize("policy", ["auto", "local", "hash", "pkg", "wrap_around"])
def test_an_aggregator_equals_spark_s_aggregates(hot, policy) -> None:
    workers = None if policy in ("auto", "local") else 4
    found = skewless.group_by(hot, "k", policy=policy, workers=workers).aggregate(Sums())
    assert found.columns == plain(hot, "k").columns
    found, expected = found.collect(), plain(hot, "k").collect()
    assert sorted(map(_row, found)) == sorted(map(_row, expected))


def _row(row):
    return repr((row.k, row.n_rows, round(row.mean, 9), row.low_v, row.high_v, sorted(row.kinds)))


def test_several_keys_one_of_them_nested(spark, hot) -> None:
    groups = skewless.group_by(hot, "k", "part", policy="wrap_around", workers=3)
    found = groups.aggregate(Sums()).drop("kinds")
    expected = plain(hot, "k", "part").drop("kinds")
    renamed = found.select(*[F.col(c).cast(expected.schema[c].dataType) for c in expected.columns])
    ours = {repr(tuple(r)) for r in renamed.collect()}
    assert ours == {repr(tuple(r)) for r in expected.collect()}


def test_an_empty_frame_gives_an_empty_frame(hot) -> None:
    groups = skewless.group_by(hot.limit(0), "k", policy="wrap_around", workers=4)
    assert groups.aggregate(Sums()).collect() == []


def test_the_helper_of_these_tests_notices_a_difference(hot) -> None:
    with pytest.raises(AssertionError):
        assert_same_groups(plain(hot, "k"), plain(hot.limit(9_999), "k"), 1)


class Where(skewless.Aggregator):
    """A sum that Python merges, and the task that finished it."""

    inputs = ("v",)
    state = "total bigint"
    result = "total bigint, task int"

    def create(self):
        return {"total": 0}

    def update(self, state, rows: pa.Table):
        return {"total": state["total"] + sum(rows["v"].to_pylist())}

    def merge(self, left, right):
        return {"total": left["total"] + right["total"]}

    def finish(self, state):
        from pyspark import TaskContext

        return {**state, "task": TaskContext.get().partitionId()}


@pytest.mark.classic  # Connect does not say how many tasks run side by side
def test_states_that_python_merges_are_spread_over_tasks_however_few_bytes_they_are(
    spark: SparkSession,
) -> None:
    df = spark.range(0, 2_000, 1, 2).select((F.col("id") % 50).alias("k"), F.col("id").alias("v"))
    rows = skewless.group_by(df, "k", policy="local").aggregate(Where()).collect()
    assert {row.k: row.total for row in rows} == {k: sum(range(k, 2_000, 50)) for k in range(50)}
    assert len({row.task for row in rows}) == 2  # the session runs two tasks side by side
