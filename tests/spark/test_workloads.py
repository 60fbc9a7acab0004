"""Workloads on Spark: the answer of the oracle, with every key split."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

import skewless
from skewless import workloads
from tests.spark import streams
from tests.spark.test_readme import blocks
from tests.unit.workload_cases import CASES, assert_same, expected, stream

ROOT = Path(__file__).parents[2]
KEYED = sorted(name for name in CASES if CASES[name].workload.per_key)


def frame(spark: SparkSession, name: str, seed: int) -> tuple[DataFrame, list[dict]]:
    """Return the rows of a workload's stream in four partitions, and its answer."""
    case = CASES[name]
    chunk = stream(case, 200, seed)
    columns = {"key": pa.array(chunk.key.astype("int64"))}
    if chunk.value is not None:
        columns |= {column: chunk.value[column] for column in chunk.value.column_names}
    table = pa.table(columns)
    rows = [tuple(row.values()) for row in table.to_pylist()]
    df = spark.createDataFrame(rows, from_arrow_schema(table.schema)).repartition(4, F.rand(1))
    return df, expected(case, chunk)


@pytest.mark.slow
@pytest.mark.parametrize("name", KEYED)
def test_the_answer_is_that_of_the_oracle_under_a_policy_that_splits_every_key(spark, name):
    workload = CASES[name].workload
    df, wanted = frame(spark, name, seed=3)
    finished = skewless.group_by(df, "key", policy="shuffle", workers=3).aggregate(workload)
    assert finished.columns == ["key", *workload.result_schema.names]
    schema = pa.schema([("key", pa.uint64()), *workload.result_schema])
    found = workload.conclude(finished.toArrow().select(finished.columns).cast(schema))
    assert_same(found.to_pylist(), wanted)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name != "naive_bayes")) for name in KEYED],
)
def test_the_answer_in_a_window_of_a_stream_is_that_of_the_oracle(spark, tmp_path, name):
    workload = CASES[name].workload
    df, wanted = frame(spark, name, seed=5)
    rows = df.withColumn("at", F.timestamp_seconds(F.monotonically_increasing_id() % 3_000))
    rows.coalesce(1).write.parquet(str(tmp_path / "whole"))
    table = pq.read_table(tmp_path / "whole")
    at = table["at"].cast(pa.timestamp("us", "UTC"))
    table = table.set_column(table.column_names.index("at"), "at", at)
    for number in range(2):
        half = slice(number * table.num_rows // 2, (number + 1) * table.num_rows // 2)
        part = table.slice(half.start, half.stop - half.start)
        streams.write(tmp_path / "in", part, 1, first=number)
    source = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1)
    by = skewless.group_by(source.parquet(str(tmp_path / "in")), "key", policy="shuffle", workers=3)
    windows = by.window("at", "1 hour", watermark="1 minute").aggregate(workload)
    newest = {
        row["key"]: row
        for batch in streams.run_updates(windows, tmp_path, "update")
        for row in batch
    }
    schema = pa.schema([("key", pa.int64()), *workload.result_schema])
    finished = pa.Table.from_pylist([newest[key] for key in newest], schema=schema)
    key = finished["key"].combine_chunks().view(pa.uint64())
    found = workload.conclude(finished.set_column(0, "key", key))
    assert_same(found.to_pylist(), wanted)


def test_a_workload_without_a_key_is_grouped_by_what_one_likes(spark):
    df, wanted = frame(spark, "tpch_q6", seed=3)
    alone = df.withColumn("all", F.lit(1))
    found = skewless.group_by(alone, "all", policy="local", workers=3).aggregate(workloads.TPCHQ6())
    assert [row.asDict() for row in found.drop("all").collect()] == wanted


@pytest.mark.slow
def test_sketches_of_tasks_keep_their_bounds(spark):
    df, _ = frame(spark, "word_count", seed=4)
    query = workloads.HeavyHitters(5, 4)
    by = df.withColumn("part", F.col("key") % 2)
    found = skewless.group_by(by, "part", policy="shuffle", workers=3).aggregate(query)
    counts = {row["key"]: row["count"] for row in df.groupBy("key").count().collect()}
    for row in found.collect():
        mine = {key: n for key, n in counts.items() if key % 2 == row["part"]}
        assert row["n"] == sum(mine.values())
        for item in row["heavy"]:
            assert item["n"] - item["error"] <= mine.pop(item["value"]) <= item["n"]
        assert all(n <= row["others"] for n in mine.values())


@pytest.mark.slow
def test_the_example_of_the_page_runs(spark):
    words = [("the",)] * 30 + [("a",)] * 20 + [("of",)]
    names = {"df": spark.createDataFrame(words, "word string")}
    [block] = blocks(ROOT / "docs" / "workloads.md")
    exec(compile(block, "workloads.md", "exec"), names)  # noqa: S102 - our own page
    found = [tuple(row) for row in names["best"].collect()]
    assert found == [("the", 30), ("a", 20), ("of", 1)]
