"""What a stream refuses, before any query starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless.errors import DataError, ParameterError


@pytest.fixture
def stream(spark: SparkSession) -> DataFrame:
    """Give a stream that is never started."""
    rate = spark.readStream.format("rate").load()
    return rate.select(
        F.col("timestamp").alias("ts"),
        F.col("value").alias("user"),
        F.create_map(F.lit("a"), F.lit(1)).alias("tags"),
    )


def raises(kind: type[Exception], *parts: str):
    return pytest.raises(kind, match=".*".join(parts))


def test_unknown_key_names_the_nearest_column(stream) -> None:
    with raises(DataError, "group_by: column 'usr' is not in the frame", "did you mean 'user'"):
        skewless.group_by(stream, "usr")


def test_a_map_cannot_be_a_key(stream) -> None:
    with raises(DataError, "column 'tags' holds a map", "cannot group by"):
        skewless.group_by(stream, "tags")


@pytest.mark.parametrize("workers", [0, -3, True, 2.5])
def test_workers_must_be_a_positive_int(stream, workers) -> None:
    with raises(ParameterError, "workers must be an int of at least 1, got"):
        skewless.group_by(stream, "user", policy="hash", workers=workers)


def test_a_learning_policy_needs_a_state_folder(stream) -> None:
    with raises(ParameterError, "WrapAround.4.", "needs state="):
        skewless.group_by(stream, "user", policy="wrap_around", workers=4)
    for policy in ("hash", "shuffle"):  # they learn nothing
        skewless.group_by(stream, "user", policy=policy, workers=4)


def test_the_state_folder_must_be_writable(stream, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    groups = skewless.group_by(stream, "user", policy="pkg", workers=4, state=os.fspath(blocked))
    with raises(DataError, "state=", "cannot be written"):
        groups.window("ts", "10 seconds", watermark="0 seconds").agg(F.count("*"))


@pytest.mark.parametrize(
    ("window", "parts"),
    [
        (("user", "10 seconds"), ("column 'user' must be a timestamp, got bigint",)),
        (("time", "10 seconds"), ("column 'time' is not in the frame",)),
        (("ts", "ten seconds"), ("size must be a duration", "'ten seconds'")),
        (("ts", "1 month"), ("size must be a duration", "'1 month'")),
        (("ts", "0 seconds"), ("size must be longer than nothing",)),
        (("ts", "10 seconds", "20 seconds"), ("slide must not exceed size",)),
        (("ts", "-10 seconds"), ("size must be a duration",)),
    ],
)
def test_windows_are_checked(stream, window, parts) -> None:
    with raises(DataError, *parts):
        skewless.group_by(stream, "user").window(*window)


def test_a_stream_is_grouped_by_windows(stream) -> None:
    with raises(DataError, "call .window"):
        skewless.group_by(stream, "user").agg(F.count("*"))


def test_agg_takes_columns(stream) -> None:
    with raises(DataError, "one or more aggregate columns"):
        skewless.group_by(stream, "user").window("ts", "1 second").agg()


class Sum(skewless.Aggregator):
    inputs = ("user",)
    state = "total bigint"
    result = "answer bigint"
    merges = {"total": "sum"}

    def create(self):
        return {"total": 0}

    def update(self, state, rows):
        return {"total": state["total"] + sum(rows["user"].to_pylist())}

    def finish(self, state):
        return {"answer": state["total"]}


def windowed(stream: DataFrame):
    groups = skewless.group_by(stream, "user", policy="local")
    return groups.window("ts", "10 seconds", watermark="0 seconds")


def test_an_aggregator_must_be_one(stream) -> None:
    with raises(DataError, "an instance of skewless.Aggregator, got the class itself; write Sum"):
        windowed(stream).aggregate(Sum)


def test_an_aggregator_needs_the_watermark(stream) -> None:
    groups = skewless.group_by(stream, "user", policy="local").window("ts", "10 seconds")
    with raises(DataError, "watermark="):
        groups.aggregate(Sum())


@pytest.mark.parametrize(
    ("name", "value", "parts"),
    [
        ("inputs", ("usr",), ("Sum: column 'usr' is not in the frame", "did you mean 'user'")),
        ("merges", {}, ("merges lacks state column 'total'",)),
        ("merges", {"total": "add"}, ("'add'",)),
        ("merges", {"totl": "sum"}, ("'totl', which is no state column", "did you mean 'total'")),
        ("result", "user bigint", ("names a column 'user'", "rename it")),
    ],
)
def test_the_schemas_of_an_aggregator_are_checked(stream, name, value, parts) -> None:
    broken = type("Sum", (Sum,), {name: value})
    with raises(DataError, *parts):
        windowed(stream).aggregate(broken())


def running(stream: DataFrame):
    groups = skewless.group_by(stream, "user", policy="local")
    return groups.window("ts", "10 seconds", "5 seconds", watermark="0 seconds", running=True)


@pytest.mark.parametrize(
    ("aggregate", "name"),
    [
        (lambda: F.min("user"), "min.user."),
        (lambda: F.count_distinct("user"), "count.DISTINCT user."),
        (lambda: F.sum("user") + 1, "sum.user."),
        (lambda: F.max("user").alias("top"), "top"),
    ],
)
def test_running_totals_need_aggregates_with_an_inverse(stream, aggregate, name) -> None:
    with raises(ParameterError, "running=True needs aggregates with an inverse", f"got .*{name}"):
        running(stream).agg(F.count("*"), aggregate())


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        (
            {"merges": {"total": "max"}},
            ("'total' of Sum is merged by 'max', which has no inverse",),
        ),
        (
            {"merges": {}, "merge": lambda self, left, right: left},
            ("needs Sum.subtract.left, right., the inverse of its merge",),
        ),
        (
            {"state": "total interval day"},
            ("adds and subtracts numbers", "'total' of Sum is interval"),
        ),
    ],
)
def test_running_totals_need_an_aggregator_with_an_inverse(stream, changes, parts) -> None:
    broken = type("Sum", (Sum,), changes)
    with raises(ParameterError, *parts):
        running(stream).aggregate(broken())


@pytest.mark.parametrize(
    "window",
    [
        {"watermark": "0 seconds"},
        {"slide": "5 seconds"},
        {"slide": "5 seconds", "watermark": "0 seconds", "panes": False},
    ],
)
def test_running_totals_are_for_sliding_windows_by_panes_with_a_watermark(stream, window) -> None:
    groups = skewless.group_by(stream, "user", policy="local")
    with raises(ParameterError, "running=True is for sliding windows by panes with a watermark"):
        groups.window("ts", "10 seconds", running=True, **window)


def test_sessions_are_checked(stream) -> None:
    groups = skewless.group_by(stream, "user", policy="local")
    with raises(DataError, "session: gap must be longer than nothing"):
        groups.session("ts", "0 seconds")
    with raises(DataError, "session: column 'user' must be a timestamp"):
        groups.session("user", "1 second")
    with raises(DataError, "watermark="):
        groups.session("ts", "1 second").aggregate(Sum())
