"""The Python blocks of README run as printed, on a small frame and a small stream."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skewless.spark.planned_batches import PlannedStream, PlannedWriter
from tests.spark.comparison import assert_same_groups, assert_same_rows, partition_sizes

README = Path(__file__).parents[2] / "README.md"


GUIDE = README.parent / "docs" / "grouping.md"


def blocks(page: Path = README) -> list[str]:
    found = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [block for block in found if ">>>" not in block]


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    hot = F.when(F.col("id") % 3 == 0, F.lit("hot")).otherwise(F.concat(F.lit("u"), F.col("id")))
    return spark.range(3_000, numPartitions=2).select(
        hot.alias("user_id"), F.col("id").cast("double").alias("amount")
    )


def test_every_example_of_the_readme_runs(
    spark: SparkSession, df: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))  # restored at the end
    posts = df.select(F.timestamp_seconds(F.col("amount") / 50).alias("ts"), "user_id")
    posts.withColumnRenamed("user_id", "hashtag").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("ts timestamp, hashtag string").parquet(str(tmp_path / "in"))
    users = df.select("user_id").distinct().withColumn("name", F.upper("user_id"))
    names: dict[str, object] = {"df": df, "stream": stream, "users": users}
    source = "\n".join(blocks()).replace("/shared/policy", str(tmp_path / "policy"))
    assert len(blocks()) >= 5
    exec(compile(source, str(README), "exec"), names)  # noqa: S102 - our own README

    balanced, totals, means, counts = (
        names[name] for name in ("balanced", "totals", "means", "counts")
    )
    assert isinstance(balanced, DataFrame)
    assert len(partition_sizes(balanced)) == 64
    assert_same_rows(balanced, df)
    assert isinstance(totals, DataFrame)
    assert_same_groups(totals, df.groupBy("user_id").agg(F.sum("amount")), 1)
    assert isinstance(means, DataFrame)
    plain = df.groupBy("user_id").agg(F.avg("amount").alias("mean"))
    assert {r.user_id: r["mean"] for r in means.collect()} == pytest.approx(
        {r.user_id: r["mean"] for r in plain.collect()}, rel=1e-9
    )
    joined = names["joined"]
    assert isinstance(joined, DataFrame)
    assert_same_rows(joined, df.join(users, "user_id", "left"))
    assert isinstance(counts, DataFrame)
    assert counts.isStreaming
    assert counts.columns == ["window", "hashtag", "count(1)"]


def test_every_example_of_the_guide_to_grouping_runs(
    df: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    noted = df.withColumn("note", F.concat(F.lit("n"), F.col("amount").cast("int")))
    users = noted.select("user_id", F.upper("user_id").alias("name")).distinct()
    names: dict[str, object] = {"df": noted, "users": users}
    exec(compile("\n".join(blocks(GUIDE)), str(GUIDE), "exec"), names)  # noqa: S102 - our own page

    assert (tmp_path / "keys.html").stat().st_size > 100_000
    totals, longest, gaps, named = (names[n] for n in ("totals", "longest", "gaps", "named"))
    assert isinstance(totals, DataFrame)
    plain = noted.groupBy("user_id").agg(F.sum("amount"), F.count_distinct("note"))
    assert_same_groups(totals, plain, 1)
    assert isinstance(longest, DataFrame)
    of_hot = longest.where("user_id = 'hot'").first()
    assert of_hot is not None
    assert (of_hot.notes, of_hot.longest) == (1_000, "n2997")
    assert isinstance(gaps, DataFrame)
    assert gaps.count() == 3_000
    assert isinstance(named, DataFrame)
    expected = noted.select("user_id", "amount", F.upper("user_id").alias("name"))
    assert sorted(map(repr, named.collect())) == sorted(map(repr, expected.collect()))


def test_every_example_of_the_guide_to_joins_runs(
    spark: SparkSession, df: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    users = df.select("user_id").distinct().withColumn("least", F.lit(100.0))
    names: dict[str, object] = {"orders": df, "users": users}
    page = README.parent / "docs" / "joins.md"
    exec(compile("\n".join(blocks(page)), str(page), "exec"), names)  # noqa: S102 - our own page

    assert (tmp_path / "join.html").stat().st_size > 100_000
    both, matched = names["both"], names["matched"]
    assert isinstance(both, DataFrame)
    assert_same_rows(both, df.join(users, "user_id", "left"))
    assert isinstance(matched, DataFrame)
    assert matched.count() == 2_899


def test_every_example_of_the_page_on_windows_runs(spark: SparkSession, df: DataFrame) -> None:
    page = README.parent / "docs" / "windows.md"
    seen = df.withColumn("ts", F.timestamp_seconds(F.col("amount").cast("int")))
    noted = seen.withColumn("note", F.concat(F.lit("n"), F.col("amount").cast("int") % 5))
    names: dict[str, object] = {"df": noted}
    exec(compile("\n".join(blocks(page)), str(page), "exec"), names)  # noqa: S102 - our own page

    latest, newest, windowed, in_all = (
        names[name] for name in ("latest", "newest", "windowed", "in_all")
    )
    assert isinstance(latest, DataFrame)
    assert latest.count() == 2_003
    assert isinstance(newest, DataFrame)
    of_hot = newest.where("user_id = 'hot'").collect()
    assert [row.amount for row in of_hot] == [2_997.0]
    assert isinstance(windowed, DataFrame)
    last = windowed.where("user_id = 'hot'").orderBy(F.desc("ts")).first()
    assert last is not None
    assert last.number == 1_000
    assert last.so_far == last.share_of == sum(range(0, 3_000, 3))
    assert last.before == 2_994.0
    assert isinstance(in_all, DataFrame)
    assert in_all.where("number <> amount + 1").count() == 0


def test_every_example_of_the_page_on_writing_runs(spark: SparkSession, tmp_path: Path) -> None:
    page = README.parent / "docs" / "writing.md"
    day = F.when(F.col("id") % 10 > 0, "today").otherwise("before")
    frame = spark.range(30_000, numPartitions=2).select(
        day.alias("day"), F.lit("CH").alias("country"), F.timestamp_seconds("id").alias("ts")
    )
    names: dict[str, object] = {"df": frame, "folder": str(tmp_path / "out")}
    exec(compile("\n".join(blocks(page)), str(page), "exec"), names)  # noqa: S102 - our own page

    assert len(list((tmp_path / "out" / "day=today").glob("*.parquet"))) == 3
    assert len(list((tmp_path / "out" / "day=before").glob("*.parquet"))) == 1
    assert len(list((tmp_path / "out" / "ranges").glob("*.parquet"))) == 8


@pytest.mark.slow
def test_every_example_of_the_page_on_running_a_query_runs(
    spark: SparkSession, df: DataFrame, tmp_path: Path
) -> None:
    page = README.parent / "docs" / "operations.md"
    clicks = df.select(F.timestamp_seconds(F.col("amount") / 50).alias("ts"), "user_id")
    clicks.coalesce(1).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("ts timestamp, user_id string").parquet(str(tmp_path / "in"))
    names: dict[str, object] = {"stream": stream}
    start, metrics = (block.replace("/shared", str(tmp_path)) for block in blocks(page))
    exec(compile(start, str(page), "exec"), names)  # noqa: S102 - our own page
    assert names["query"].awaitTermination(300)  # type: ignore[attr-defined]
    deadline = time.monotonic() + 30
    while not (tmp_path / "policy" / "batches.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    exec(compile(metrics, str(page), "exec"), names)  # noqa: S102 - our own page
    [row] = names["balance"].collect()  # type: ignore[attr-defined]
    assert (row.batch, row.active, sum(row.loads)) == (0, 16, 3_000)


def test_every_example_of_the_page_on_streams_in_windows_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    page = README.parent / "docs" / "streaming.md"
    rate = spark.readStream.format("rate").load()
    stream = rate.select(
        F.col("timestamp").alias("ts"),
        F.concat(F.lit("#"), F.col("value")).alias("hashtag"),
        F.col("value").alias("likes"),
    )
    names: dict[str, object] = {"stream": stream}
    source = "\n".join(blocks(page)).replace("/shared/", f"{tmp_path}/")
    exec(compile(source, str(page), "exec"), names)  # noqa: S102 - our own page

    columns = {
        "tumbling": ["window", "hashtag", "count(1)", "sum(likes)"],
        "sliding": ["window", "hashtag", "count(1)"],
        "visits": ["session_window", "hashtag", "count(1)"],
        "liked": ["window", "hashtag", "posts", "most_common"],
        "means": ["window", "hashtag", "count(1)", "avg(likes)"],
        "common": ["window", "hashtag", "posts", "most_common"],
        "exact": ["window", "hashtag", "count(1)"],
    }
    for name, expected in columns.items():
        frame = names[name]
        assert isinstance(frame, DataFrame)
        assert frame.isStreaming
        assert frame.columns == expected
    planned = names["planned"]
    assert isinstance(planned, PlannedStream)
    assert planned.schema.fieldNames() == columns["liked"]
    assert "subtracted once" in planned.explain()
    assert isinstance(names["writer"], PlannedWriter)
