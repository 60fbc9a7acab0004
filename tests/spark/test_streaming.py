"""Streams: the rows of plain Spark under every policy, and a policy that is learned on the way."""

from __future__ import annotations

import errno
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless.histogram import Histogram
from skewless.partitioners import ALL as PARTITIONERS
from skewless.planners import ALL as PLANNERS
from skewless.policy import Policy, policy_name
from skewless.routing import Routing
from skewless.spark.policy_log import PolicyLog
from tests.spark import streams

NAMES = [policy_name(cls) for cls in (*PARTITIONERS, *PLANNERS)]


def aggregates() -> list[Column]:
    return [
        F.count("*").alias("n"),
        F.count("v").alias("n_v"),
        F.count(F.lit(1)).alias("n_1"),
        F.count(F.lit(None)).alias("n_0"),
        F.sum("v").alias("total"),
        F.avg("v").alias("mean"),
        F.min("v").alias("low"),
        F.max("x").alias("high"),
        F.max("v"),
    ]


def plain(stream: DataFrame, *aggs: Column, slide: str = "2 seconds") -> DataFrame:
    return (
        stream.withWatermark("ts", "0 seconds")
        .groupBy(F.window("ts", "10 seconds", slide), "k")
        .agg(*aggs)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give five files of a skewed stream."""
    made = tmp_path_factory.mktemp("stream") / "in"
    streams.write(made, streams.rows(), 5)
    return made


@pytest.fixture(scope="module")
def expected(spark: SparkSession, folder: Path, tmp_path_factory) -> Counter[str]:
    """Give what plain Spark makes of them."""
    frame = plain(streams.stream(spark, folder), *aggregates())
    found = streams.run(frame, tmp_path_factory.mktemp("plain"))
    assert len(found) > 500
    return found


def grouped(spark: SparkSession, folder: Path, state: Path, policy: object, **window: object):
    stream = streams.stream(spark, folder)
    workers = None if isinstance(policy, (Policy, Routing)) else 4
    groups = skewless.group_by(stream, "k", policy=policy, workers=workers, state=str(state))
    return groups.window("ts", "10 seconds", "2 seconds", watermark="0 seconds", **window)


@pytest.mark.parametrize("policy", [*NAMES, "auto", "local"])
def test_sliding_windows_equal_plain_spark(spark, folder, expected, tmp_path, policy) -> None:
    groups = grouped(spark, folder, tmp_path / "state", policy)
    frame = groups.agg(*aggregates())
    assert frame.schema == plain(streams.stream(spark, folder), *aggregates()).schema
    assert streams.run(frame, tmp_path) == expected
    if policy in NAMES:
        records = settled(groups, 5)
        assert [r.batch for r in records][:5] == [0, 1, 2, 3, 4]
        assert sum(r.rows for r in records) == 6_000
        assert all(int(r.loads.sum()) == r.rows for r in records)


def test_the_load_evens_out_once_the_policy_has_learned(spark, tmp_path) -> None:
    table = streams.rows()
    streams.write(tmp_path / "in", table.slice(0, 2_000), 1)
    groups = grouped(spark, tmp_path / "in", tmp_path / "state", "wrap_around")
    query = streams.start(groups.agg(F.count("*").alias("n")), tmp_path)
    try:
        for number in (1, 2):
            query.processAllAvailable()
            settled(groups, number)  # the loop has learned: the next batch reads its policy
            if number == 1:
                streams.write(tmp_path / "in", table.slice(2_000, 2_000), 1, first=1)
    finally:
        query.stop()
    first, second = list(groups.batches)[:2]
    assert (first.version, second.version > first.version) == (1, True)
    assert first.max_over_mean > 1.3
    assert second.max_over_mean < 1.2


def settled(groups, n_batches: int):
    """Wait for the listener, which may be a moment behind the query."""
    deadline = time.monotonic() + 30
    while not (len(groups.batches) >= n_batches and groups.idle) and time.monotonic() < deadline:
        time.sleep(0.05)
    return groups.batches


class Restless(Policy):
    """A policy that gives every key to somebody else after every batch."""

    splits_keys = True
    moves_keys = True

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self.rng = np.random.default_rng(7)

    def learn(self, histogram: Histogram, previous: Routing | None = None) -> Routing:
        hot = {
            int(key): {int(w): 1.0 for w in self.rng.choice(self.n_workers, 2, replace=False)}
            for key in histogram.keys[:20]
        }
        owners = self.rng.integers(0, self.n_workers, 2048)
        return Routing(self.n_workers, hot, owners)


def test_rows_stay_the_same_while_the_policy_changes_in_every_batch(
    spark, folder, expected, tmp_path
) -> None:
    groups = grouped(spark, folder, tmp_path / "state", Restless(4))
    query = streams.start(groups.agg(*aggregates()), tmp_path)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert streams.read(tmp_path) == expected
    assert len({record.version for record in settled(groups, 5)}) >= 3


def test_a_fixed_routing_needs_no_state(spark, folder, expected, tmp_path) -> None:
    stream = streams.stream(spark, folder)
    routing = Routing(3, {42: {0: 0.5, 2: 0.5}})
    groups = skewless.group_by(stream, "k", policy=routing)
    frame = groups.window("ts", "10 seconds", "2 seconds", watermark="0 seconds").agg(*aggregates())
    assert streams.run(frame, tmp_path) == expected


def test_an_aggregate_that_cannot_be_put_together_is_not_taken_apart(
    spark, folder, tmp_path
) -> None:
    aggs = [F.stddev("x").alias("spread"), F.count_distinct("v").alias("kinds")][:1]
    groups = grouped(spark, folder, tmp_path / "state", "shuffle")
    found = streams.run(groups.agg(*aggs), tmp_path / "ours")
    theirs = streams.run(plain(streams.stream(spark, folder), *aggs), tmp_path / "plain")
    assert found == theirs


def test_without_panes_even_late_rows_are_treated_as_plain_spark_does(spark, tmp_path) -> None:
    table = streams.rows(3_000)
    late = table.slice(0, 300)  # a fifth file full of rows from the first seconds
    streams.write(tmp_path / "in", pa.concat_tables([table, late]), 5)
    groups = grouped(spark, tmp_path / "in", tmp_path / "state", "wrap_around", panes=False)
    found = streams.run(groups.agg(F.count("*").alias("n")), tmp_path / "ours")
    stream = streams.stream(spark, tmp_path / "in")
    assert found == streams.run(plain(stream, F.count("*").alias("n")), tmp_path / "plain")


class Mean(skewless.Aggregator):
    """Mean of `v`, nulls left out, in small calls."""

    inputs = ("v",)
    state = "n bigint, total bigint"
    result = "mean double, n_v bigint"
    merges = {"n": "sum", "total": "sum"}
    max_rows = 50

    def create(self):
        return {"n": 0, "total": 0}

    def update(self, state, rows):
        assert 0 < rows.num_rows <= self.max_rows
        values = [v for v in rows["v"].to_pylist() if v is not None]
        return {"n": state["n"] + len(values), "total": state["total"] + sum(values)}

    def finish(self, state):
        return {"mean": state["total"] / state["n"] if state["n"] else None, "n_v": state["n"]}


@pytest.mark.parametrize("policy", ["local", "dalton", "wrap_around"])
def test_an_aggregator_equals_spark_s_own_aggregate(spark, folder, tmp_path, policy) -> None:
    aggs = [F.avg("v").alias("mean"), F.count("v").alias("n_v")]
    reference = plain(streams.stream(spark, folder), *aggs)
    groups = grouped(spark, folder, tmp_path / "state", policy)
    frame = groups.aggregate(Mean())
    assert frame.columns == ["window", "k", "mean", "n_v"]
    assert streams.run(frame, tmp_path / "ours") == streams.run(reference, tmp_path / "plain")


def test_a_damaged_lost_or_late_policy_file_never_fails_the_query(spark, tmp_path) -> None:
    table = streams.rows()
    streams.write(tmp_path / "in", table.slice(0, 1_000), 1)
    state = tmp_path / "state"
    groups = grouped(spark, tmp_path / "in", state, "wrap_around")
    query = streams.start(groups.agg(F.count("*").alias("n")), tmp_path / "ours")
    log = PolicyLog(state)

    def feed(number: int) -> None:
        streams.write(tmp_path / "in", table.slice(1_000 * number, 1_000), 1, first=number)
        query.processAllAvailable()
        settled(groups, number + 1)

    try:
        query.processAllAvailable()
        settled(groups, 1)
        newest = log.path(log.versions()[-1])
        newest.write_bytes(newest.read_bytes()[:200])  # truncated: the version before it counts
        feed(1)
        assert groups.batches[-1].version < int(newest.stem.removeprefix("policy-"))
        for version in log.versions():
            log.path(version).write_text('{"format": "something else"}')  # foreign: plain hashing
        feed(2)
        assert groups.batches[-1].version == 0
        for version in log.versions():
            log.path(version).unlink()  # lost: plain hashing
        log.path(999_999_999).touch()  # empty
        feed(3)
        assert groups.batches[-1].version == 0
        log.path(999_999_999).unlink()
        feed(4)
        feed(5)
        assert query.exception() is None
        assert groups.batches[-1].version > 0  # it went on learning
    finally:
        query.stop()
    stream = streams.stream(spark, tmp_path / "in")
    assert streams.read(tmp_path / "ours") == streams.run(
        plain(stream, F.count("*").alias("n")), tmp_path / "plain"
    )


def test_a_full_disk_or_a_listener_that_dies_costs_no_row(
    spark, folder, expected, tmp_path, monkeypatch, caplog
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("no reason at all")

    for broken, message in (("write", "No space left on device"), ("learn", "no reason at all")):
        state = tmp_path / f"{broken}-state"
        groups = grouped(spark, folder, state, "wrap_around")
        frame = groups.agg(*aggregates())
        loop = groups._routing.loop
        if broken == "write":
            monkeypatch.setattr(loop.log, "write", full)
        else:
            monkeypatch.setattr(loop, "learn", fail)
        assert streams.run(frame, tmp_path / broken) == expected
        assert "taught nothing" in caplog.text
        assert message in caplog.text
        assert PolicyLog(state).versions() == [1]


def test_a_restart_goes_on_with_the_policy_that_was_learned(spark, folder, tmp_path) -> None:
    state = tmp_path / "state"
    first = grouped(spark, folder, state, "wrap_around")
    streams.run(first.agg(F.count("*").alias("n")), tmp_path / "one")
    settled(first, 5)
    learned = PolicyLog(state).newest(4)
    assert learned is not None
    again = grouped(spark, folder, state, "wrap_around")
    streams.run(again.agg(F.count("*").alias("n")), tmp_path / "two")
    assert settled(again, 1)[0].version >= learned.version
