"""The Python blocks of README run as printed, on a small frame and a small stream."""

from __future__ import annotations

import datetime as dt
import os
import random
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless.spark.planned_batches import PlannedStream, PlannedWriter
from tests.spark import streams
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


@pytest.mark.classic
def test_the_example_of_the_page_on_batch_replay_runs(spark: SparkSession) -> None:
    page = README.parent / "docs" / "replay.md"
    host = F.when(F.col("id") % 4 == 0, F.lit("a.org")).otherwise(
        F.concat(F.col("id") % 90, F.lit(".org"))
    )
    pages = spark.range(0, 2_000, 1, 20).select(host.alias("host"), F.col("id").alias("page"))
    names: dict[str, object] = {"pages": pages}
    exec(compile("\n".join(blocks(page)), str(page), "exec"), names)  # noqa: S102 - our own page
    parsed = names["parsed"]
    assert isinstance(parsed, DataFrame)
    assert {(row.host, row.pages) for row in parsed.collect()} == {
        (row[0], row[1]) for row in pages.groupBy("host").count().collect()
    }


@pytest.mark.slow
def test_the_three_jobs_of_the_page_on_stateful_streams_equal_plain_python(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = (README.parent / "docs" / "stateful.md").read_text()
    part = text[text.index("## Three jobs") : text.index("## Which policies")]
    (tmp_path / "part.md").write_text(part)
    rng = random.Random(3)  # noqa: S311 - seeded on purpose
    batches = [
        [
            {
                "ts": dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
                + dt.timedelta(seconds=100 * batch + rng.randrange(-9, 100)),
                "name": rng.choice(["a", "a", "a", "b", f"c{batch}"]),
                "word": rng.choice(["Ada", "Bob", "in Paris", "Rome x", "none"]),
            }
            for _ in range(30)
        ]
        for batch in range(3)
    ]
    for number, rows in enumerate(batches):
        streams.write(tmp_path / "in", pa.Table.from_pylist(rows), 1, first=number)
    source = spark.readStream.schema("ts timestamp, name string, word string")
    stream = source.option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    names: dict[str, Any] = {
        "skewless": skewless,
        "pa": pa,
        "links": stream.selectExpr("name AS host", "word AS url"),
        "pages": stream.selectExpr("name AS host", "word AS text"),
        "clicks": stream.selectExpr("ts", "name AS user", "word AS event"),
    }
    examples = "\n".join(blocks(tmp_path / "part.md")).replace("/shared", str(tmp_path))
    exec(compile(examples, "stateful.md", "exec"), names)  # noqa: S102 - our own page

    found: dict[str, list[list[dict[str, Any]]]] = {}
    for job in ("lists", "mentioned", "ordered"):
        out = found.setdefault(job, [])
        writer = names[job].writeStream.foreachBatch(
            lambda frame, _, out=out: out.append([row.asDict() for row in frame.collect()])
        )
        writer = writer.option("checkpointLocation", str(tmp_path / f"{job}-checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(240)
        assert len(out) == 3
    assert [_sorted(rows) for rows in found["lists"]] == _fetched(batches)
    assert [_sorted(rows) for rows in found["mentioned"]] == _mentioned(batches)
    assert [_sorted(rows) for rows in found["ordered"]] == _in_order(batches)


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    naive = [
        {
            name: value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value
            for name, value in sorted(row.items())
        }
        for row in rows
    ]
    return sorted(map(repr, naive))


def _by_name(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {name: [r for r in rows if r["name"] == name] for name in {r["name"] for r in rows}}


def _fetched(batches: list[list[dict[str, Any]]]) -> list[list[str]]:
    """At most two pages of each host and batch, the most linked first, none twice."""
    done: set[tuple[str, str]] = set()
    links: Counter[tuple[str, str]] = Counter()
    expected = []
    for rows in batches:
        links.update((r["name"], r["word"]) for r in rows)
        out = []
        for host in _by_name(rows):
            urls = [u for h, u in links if h == host and (h, u) not in done]
            best = sorted(urls, key=lambda u: (-links[host, u], u))[:2]
            done |= {(host, url) for url in best}
            out += [{"host": host, "url": url} for url in best]
        expected.append(_sorted(out))
    return expected


def _mentioned(batches: list[list[dict[str, Any]]]) -> list[list[str]]:
    """The three most frequent names of each host that has rows in a batch, all batches so far."""
    names = {"Ada": "Ada", "Bob": "Bob", "in Paris": "Paris", "Rome x": "Rome"}
    counts: Counter[tuple[str, str]] = Counter()
    expected = []
    for rows in batches:
        counts.update((r["name"], names[r["word"]]) for r in rows if r["word"] in names)
        out = []
        for host in _by_name(rows):
            mine = [(-n, name) for (h, name), n in counts.items() if h == host]
            out += [{"host": host, "entity": e, "n": -n} for n, e in sorted(mine)[:3]]
        expected.append(_sorted(out))
    return expected


def _in_order(batches: list[list[dict[str, Any]]]) -> list[list[str]]:
    """Events that are not late, a minute at a time, as soon as the minute is known to be over."""
    late = dt.timedelta(seconds=10)
    watermark = dt.datetime.min.replace(tzinfo=dt.timezone.utc)
    held: list[dict[str, Any]] = []
    expected = []
    for rows in batches:
        fresh = [r for r in rows if r["ts"] > watermark]
        held += fresh
        out = []
        for name in {r["name"] for r in held}:
            own = [r["ts"] for r in fresh if r["name"] == name]
            due = min(_minute(r) for r in held if r["name"] == name)
            known = max(own) - late if own else min(due, watermark)
            mine = [r for r in held if r["name"] == name and _minute(r) <= known]
            held = [r for r in held if r not in mine]
            for end in {_minute(r) for r in mine}:
                events = sorted((r["ts"], r["word"]) for r in mine if _minute(r) == end)
                out += [
                    {"user": name, "ends": end, "place": place, "ts": ts, "event": event}
                    for place, (ts, event) in enumerate(events, 1)
                ]
        expected.append(_sorted(out))
        watermark = max(watermark, max(r["ts"] for r in rows) - late)
    return expected


def _minute(row: dict[str, Any]) -> dt.datetime:
    return row["ts"].replace(second=0, microsecond=0) + dt.timedelta(minutes=1)
