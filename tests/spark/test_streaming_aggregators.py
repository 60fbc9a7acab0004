"""Aggregators with a merge in Python on streams: every row of every batch, by plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import skewless
from tests.oracles import stream_windows as oracle
from tests.spark import streams
from tests.unit.multiset import Multiset

S = streams.SECOND_US
SIZE, SLIDE, DELAY = 10 * S, 4 * S, 3 * S


@pytest.fixture(scope="module", params=[1])
def tables(request):
    """Give the batches of a stream with late rows, nulls and drift."""
    return streams.unruly(request.param)


@pytest.fixture(scope="module", autouse=True)
def two_partitions(spark: SparkSession) -> Iterator[None]:
    """Keep the queries short: each partition of a state store costs time in every batch."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", str(before))


@pytest.fixture(scope="module")
def folder(tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give them as files."""
    made = tmp_path_factory.mktemp("unruly") / "in"
    streams.write_batches(made, tables)
    return made


def groups(spark: SparkSession, folder: Path, state: Path, policy: str = "wrap_around"):
    stream = streams.stream(spark, folder)
    return skewless.group_by(stream, "k", policy=policy, workers=3, state=str(state))


def result(values: list[object]) -> tuple[int, list[object]]:
    return len(values), sorted(v for v in values if v is not None)


def emitted(rows: list[dict[str, object]], window: str = "window"):
    found = {}
    for row in rows:
        start, end = (row[window][name] for name in ("start", "end"))
        at = round(start.timestamp() * S), round(end.timestamp() * S), row["k"]
        assert at not in found, f"{at} came twice in one batch"
        found[at] = row["n_rows"], row["values"]
    return found


def spans(windows: oracle.Windows, size: int):
    return {(end - size, end, key): result(values) for (end, key), values in windows.items()}


@pytest.mark.parametrize(
    ("policy", "mode", "slide"),
    [
        ("local", "append", "4 seconds"),
        ("wrap_around", "append", "4 seconds"),
        ("dalton", "update", "4 seconds"),
        ("local", "update", None),
    ],
)
def test_each_batch_emits_what_the_reference_does(
    spark, tables, folder, tmp_path, policy, mode, slide
) -> None:
    by = groups(spark, folder, tmp_path / "state", policy)
    frame = by.window("ts", "10 seconds", slide, watermark="3 seconds").aggregate(Multiset())
    found = streams.run_updates(frame, tmp_path, mode)
    rows = streams.rows_of(tables)
    expected = [
        spans(complete if mode == "append" else updated, SIZE)
        for complete, updated in oracle.windows(rows, SIZE, SLIDE if slide else SIZE, DELAY)
    ]
    late = sum(len(batch) for batch in rows) - sum(
        n
        for updated in oracle.windows(rows, SIZE, SIZE, DELAY)
        for n in map(len, updated[0].values())
    )
    assert late > 20
    assert [emitted(each) for each in found] == expected


@pytest.mark.parametrize("policy", ["local", "pkg"])
def test_sessions_equal_the_reference_and_plain_spark(
    spark, tables, folder, tmp_path, policy
) -> None:
    ours = groups(spark, folder, tmp_path / "state", policy)
    frame = ours.session("ts", "1 second", watermark="30 seconds").aggregate(Multiset())
    assert frame.columns == ["session_window", "k", "n_rows", "values"]
    found = streams.run_updates(frame, tmp_path, "append")
    expected = oracle.sessions(streams.rows_of(tables), S, 30 * S)
    assert len(expected) > 20
    assert {at: row for batch in found for at, row in emitted(batch, "session_window").items()} == {
        at: result(values) for at, values in expected.items()
    }
    by = groups(spark, folder, tmp_path / "state2", policy)
    counted = by.session("ts", "1 second", watermark="30 seconds").agg(F.count("*").alias("n"))
    native = streams.run(counted, tmp_path / "native")
    assert sum(native.values()) == len(expected)


@pytest.mark.parametrize("policy", ["local", "wrap_around"])
def test_running_totals_of_an_aggregator_equal_the_reference(
    spark, tables, folder, tmp_path, policy
) -> None:
    by = groups(spark, folder, tmp_path / "state", policy)
    windows = by.window("ts", "10 seconds", "4 seconds", watermark="3 seconds", running=True)
    frame = windows.aggregate(Multiset())
    assert frame.columns == ["window", "k", "n_rows", "values"]
    assert "running totals" in windows.explain()
    found = [emitted(each) for each in streams.run_updates(frame, tmp_path, "append")]
    expected = oracle.windows(streams.rows_of(tables), SIZE, SLIDE, DELAY, pane=2 * S)
    assert found == [spans(complete, SIZE) for complete, _ in expected]


def test_running_totals_of_spark_s_aggregates_equal_windows_by_panes(
    spark, folder, tmp_path
) -> None:
    aggregates = [
        F.count("*").alias("n"),
        F.count("v").alias("n_v"),
        F.sum("v").alias("total"),
        F.avg("x").alias("mean"),
        F.sum(F.col("v").cast("decimal(20,3)")).alias("exact"),
        F.sum("x"),
    ]
    frames = []
    for running in (True, False):
        by = groups(spark, folder, tmp_path / f"state{running}", "local")
        window = {"watermark": "3 seconds", "running": running}
        frames.append(by.window("ts", "10 seconds", "2 seconds", **window).agg(*aggregates))
    assert frames[0].schema == frames[1].schema
    found, expected = (streams.run(frame, tmp_path / str(i)) for i, frame in enumerate(frames))
    assert len(expected) > 100
    assert found == expected
