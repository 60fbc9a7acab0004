"""A query in operation: its metrics, active workers, and a restart with another policy."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import functions as F

import skewless
from skewless.errors import DataError, ParameterError
from skewless.operations import MetricsFile
from skewless.routing import Routing
from skewless.spark import read_metrics
from skewless.spark.policy_history import history
from skewless.spark.policy_log import PolicyLog
from tests.spark import streams


def plain(spark, folder: Path):
    """Return plain Spark's query over all files in one micro-batch; no row of ours is late."""
    stream = spark.readStream.schema(streams.SCHEMA).parquet(str(folder))
    window = F.window("ts", "10 seconds", "2 seconds")
    return stream.withWatermark("ts", "0 seconds").groupBy(window, "k").agg(F.count("*").alias("n"))


def counted(groups):
    windows = groups.window("ts", "10 seconds", "2 seconds", watermark="0 seconds")
    return windows, windows.agg(F.count("*").alias("n"))


def wait(until) -> None:
    """Wait for the listener, which may be a moment behind the query."""
    deadline = time.monotonic() + 30
    while not until() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert until()


@pytest.mark.slow
def test_an_elastic_query_retires_workers_tells_of_it_and_gives_plain_spark_s_rows(
    spark, tmp_path
) -> None:
    table = streams.rows(5_000)
    streams.write(tmp_path / "in", table.slice(0, 4_000), 4)
    stream = streams.stream(spark, tmp_path / "in")
    scaling = skewless.ActiveWorkers(2, 4, interval_s=10_000, patience=1)
    state = tmp_path / "state"
    groups = skewless.group_by(stream, "k", policy="wrap_around", elastic=scaling, state=str(state))
    windows, frame = counted(groups)
    with pytest.raises(DataError, match=r"^metrics: folder .* holds no batches.jsonl"):
        windows.metrics()
    query = frame.writeStream.queryName("elastic").outputMode("append").format("parquet")
    query = query.option("path", str(tmp_path / "ours" / "out"))
    query = query.option("checkpointLocation", str(tmp_path / "ours" / "checkpoint"))
    run = query.start()
    try:
        run.processAllAvailable()
        wait(lambda: len(windows.batches) == 4 and windows.idle)
        streams.write(tmp_path / "in", table.slice(4_000), 1, first=4)
        run.processAllAvailable()
        wait(lambda: len(windows.batches) == 5 and windows.idle)
    finally:
        run.stop()
    file = MetricsFile(state)
    wait(lambda: file.read().ended is not None)
    found = file.read()
    assert found.ended == (str(run.runId), None)
    assert found.damaged == 0
    ids = [one.batch for one in found.batches]
    # Between the last two, Spark ran a batch without rows, for the watermark.
    assert ids == [0, 1, 2, 3, ids[-1]]
    assert found.batches[0].active == 4
    assert found.batches[-1].active == 2
    assert sum(found.batches[-1].loads[2:]) == 0
    assert {one.title for one in found.batches} == {"elastic"}
    assert found.batches[-1].rows_total == 5_000
    for one in found.batches:
        assert one.rows == 1_000
        assert 0 < one.timing.seconds < 60
        assert one.timing.event_lag_s > 1e9  # the events are of 1970
        assert 50 < one.n_keys < 210
        assert one.interval_s is None or one.interval_s > 0

    rows = windows.metrics().orderBy("batch").collect()
    assert [row.rows for row in rows] == [1_000] * 5
    assert [row.active for row in rows] == [one.active for one in found.batches]
    assert isinstance(rows[0].started, datetime)
    assert rows[-1].hot[0].rows == found.batches[-1].hot[0].rows
    assert rows[-1].loads == list(found.batches[-1].loads)
    assert [row.batch for row in read_metrics(spark, str(state), last=2).collect()] == ids[3:]
    # The key is told as Spark's own hash of it.
    keys = {row.h for row in stream_keys(spark, tmp_path / "in").collect()}
    assert {key.key for key in found.batches[-1].hot} <= keys
    scaled = PolicyLog(state).read(PolicyLog(state).versions()[-1]).facts["scaling"]
    assert "load" in scaled or "waiting" in scaled

    expected = streams.run(plain(spark, tmp_path / "in"), tmp_path / "plain")
    assert streams.read(tmp_path / "ours") == expected


def stream_keys(spark, folder: Path):
    return spark.read.schema(streams.SCHEMA).parquet(str(folder)).select(F.xxhash64("k").alias("h"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:skewless. policy version:UserWarning")
def test_a_query_goes_on_with_other_workers_another_policy_or_none(spark, tmp_path) -> None:
    table = streams.rows(1_500, seconds=30)
    state = str(tmp_path / "state")
    steps = [
        {"policy": "wrap_around", "workers": 4, "state": state},
        {"policy": "kip", "workers": 3, "state": state},
        {"policy": "local"},
    ]
    newest = []
    for number, options in enumerate(steps):
        streams.write(tmp_path / "in", table.slice(500 * number, 500), 1, first=number)
        stream = streams.stream(spark, tmp_path / "in")
        windows, frame = counted(skewless.group_by(stream, "k", **options))
        streams.run(frame, tmp_path / "ours")
        if windows.routes:
            wait(lambda windows=windows: len(windows.batches) == 1 and windows.idle)
            assert windows.batches[0].batch >= number  # it went on, and did not begin anew
            assert windows.batches[0].version > 0
        newest.append(PolicyLog(state).versions()[-1])
    assert newest == sorted(newest)
    shown = history(state)
    assert shown.damaged == []
    assert {version.workers for version in shown.versions} == {4, 3}
    expected = streams.run(plain(spark, tmp_path / "in"), tmp_path / "plain")
    assert streams.read(tmp_path / "ours") == expected
    assert [one.rows for one in MetricsFile(state).read().batches] == [500, 500]


@pytest.mark.slow
@pytest.mark.classic
def test_an_elastic_stateful_stream_gives_up_partitions_and_keeps_its_states(
    spark, tmp_path
) -> None:
    streams.write(tmp_path / "in", streams.rows(1_500), 3)
    scaling = skewless.ActiveWorkers(2, 4, interval_s=10_000, patience=1)
    state = str(tmp_path / "state")
    groups = skewless.group_by(
        streams.stream(spark, tmp_path / "in"), "k", policy="kip", elastic=scaling, state=state
    )

    def count(key, rows, state):
        return {"n": (state["n"] if state else 0) + len(rows)}, None

    counted = groups.stateful(count, "n long", "k string")
    writer = counted.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).format("noop").start()
    assert query.awaitTermination(300)
    assert [len(one.loads) for one in counted.batches] == [4, 3, 2]
    assert counted.batches[-1].reason == "3 workers became 2"
    expected = spark.read.schema(streams.SCHEMA).parquet(str(tmp_path / "in")).groupBy("k").count()
    found = {row.k: row.n for row in counted.state().collect()}
    assert found == {row.k: row["count"] for row in expected.collect()}


def test_what_cannot_be_elastic_is_refused_before_the_query(spark, tmp_path) -> None:
    (tmp_path / "in").mkdir()
    stream = streams.stream(spark, tmp_path / "in")

    def refused(words: str, frame=stream, **options: object) -> None:
        with pytest.raises(ParameterError, match=words):
            skewless.group_by(frame, "k", **options)

    pair = {"elastic": (2, 4)}
    refused(r"^group_by: elastic=\(2, 4\) needs a policy that learns .* got 'auto'", **pair)
    refused(r"policy that learns .* got Routing", policy=Routing.hashing(4), **pair)
    refused(
        r"^group_by: workers=5 but the policy has 4",
        policy=skewless.WrapAround(4),
        workers=5,
        **pair,
    )
    refused(r"^Elastic: the policy has 5 workers", policy="kip", workers=5, **pair)
    refused(r"^Elastic: .* deals rows to all workers", policy="shuffle", **pair)
    refused(r"^group_by: elastic must be \(fewest, most\)", policy="kip", elastic=4)
    refused(r"^ActiveWorkers: low must be at most high", policy="kip", elastic=(4, 2))
    refused(r"needs state=", policy="kip", **pair)
    batch = spark.createDataFrame([("a",)], "k string")
    refused(r"this frame is not streaming", batch, policy="kip", **pair)
    groups = skewless.group_by(stream, "k", policy="pkg", state=str(tmp_path / "s"), **pair)
    with pytest.raises(ParameterError, match=r"^stateful: PKG\(4\) splits keys"):
        groups.stateful(lambda key, rows, state: (None, None), "n long", "n long")
    groups = skewless.group_by(stream, "k", policy="kip", state=str(tmp_path / "s"), **pair)
    counted = groups.stateful(lambda key, rows, state: (None, None), "n long", "n long")
    assert "policy: Elastic(KIP(4), ActiveWorkers(2, 4))" in counted.explain()
    with pytest.raises(DataError, match=r"^metrics: policy 'local' routes nothing"):
        skewless.group_by(stream, "k", policy="local").window("ts", "1 second").metrics()
