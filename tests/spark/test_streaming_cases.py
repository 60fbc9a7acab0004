"""Troubles that people have had with skewed streams, as tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import skewless
import skewless.spark
from skewless.errors import DataError, ParameterError
from tests.oracles import stream_windows as oracle
from tests.spark import streams
from tests.unit.multiset import Multiset

S = streams.SECOND_US


@pytest.fixture(autouse=True)
def two_partitions(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", str(before))


def batch(second: int, rows: list[tuple[str, int]]) -> pa.Table:
    """Rows of one second."""
    return pa.table(
        {
            "ts": pa.array([second * S] * len(rows), pa.timestamp("us", "UTC")),
            "k": [key for key, _ in rows],
            "v": pa.array([value for _, value in rows], pa.int64()),
            "x": [0.0] * len(rows),
        }
    )


def test_a_hot_key_over_several_batches_is_never_counted_twice(spark, tmp_path: Path) -> None:
    tables = [
        batch(100 + i, [("hot", 0)] * hot + [("cold", 0)] * (i == 1) + [("sum", i + 1)])
        for i, hot in enumerate([50, 30, 20, 0, 0])
    ]
    streams.write_batches(tmp_path / "in", tables)
    by = skewless.group_by(
        streams.stream(spark, tmp_path / "in"),
        "k",
        policy="wrap_around",
        workers=2,
        state=str(tmp_path / "state"),
    )
    groups = by.window("ts", "1 hour", watermark="10 seconds")
    frame = groups.agg(F.count("*").alias("n"), F.sum("v").alias("total"))
    found = streams.run_updates(frame, tmp_path, "update")
    fired = [{row["k"]: (row["n"], row["total"]) for row in rows} for rows in found]
    assert [rows["hot"][0] for rows in fired if "hot" in rows] == [50, 80, 100]
    assert [rows["cold"][0] for rows in fired if "cold" in rows] == [1]
    assert [rows["sum"][1] for rows in fired if "sum" in rows] == [1, 3, 6, 10, 15]


def test_panes_in_update_mode_are_refused_and_windows_without_panes_are_not(
    spark, tmp_path: Path
) -> None:
    streams.write_batches(tmp_path / "in", [batch(100, [("a", 1)])])
    by = skewless.group_by(streams.stream(spark, tmp_path / "in"), "k", policy="local")
    window = {"watermark": "1 second"}
    panes = by.window("ts", "10 seconds", "5 seconds", **window).agg(F.count("*"))
    with pytest.raises(AnalysisException):
        panes.writeStream.outputMode("update").format("noop").option(
            "checkpointLocation", str(tmp_path / "refused")
        ).start()
    expanded = by.window("ts", "10 seconds", "5 seconds", panes=False, **window).agg(F.count("*"))
    found = streams.run_updates(expanded, tmp_path, "update")
    assert sorted(len(rows) for rows in found) == [0, 2]


@pytest.mark.slow
def test_a_restart_with_another_number_of_partitions_loses_no_state(spark, tmp_path: Path) -> None:
    tables = streams.unruly(9, n_batches=4)
    found = []
    for first, partitions in ((0, "2"), (2, "3")):
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        for number in (first, first + 1):
            streams.write(tmp_path / "in", tables[number], 1, first=number)
        by = skewless.group_by(streams.stream(spark, tmp_path / "in"), "k", policy="local")
        windows = by.window("ts", "10 seconds", "4 seconds", watermark="3 seconds", running=True)
        found = streams.run_updates(windows.aggregate(Multiset()), tmp_path, "append")
    counted = {
        (round(row["window"]["end"].timestamp() * S), row["k"]): row["n_rows"]
        for rows in found
        for row in rows
    }
    expected: dict[object, int] = {}
    batches = streams.rows_of(tables)
    # The first run ends with a batch without rows, and so does the oracle's.
    for complete, _ in oracle.windows(
        [*batches[:2], [], *batches[2:]], 10 * S, 4 * S, 3 * S, 2 * S
    ):
        expected.update({at: len(values) for at, values in complete.items()})
    assert counted == expected


@pytest.mark.slow
def test_state_is_spread_over_other_partitions_and_counts_go_on(
    spark, tmp_path: Path, caplog
) -> None:
    store = "spark.sql.streaming.stateStore.providerClass"
    rocks = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set(store, rocks)
    checkpoint = str(tmp_path / "checkpoint")

    def count_up(first: int, hot: int) -> dict[str, int]:
        rows = [("hot", 0)] * hot + [("cold", 0)] * (first == 0)
        streams.write(tmp_path / "in", batch(100 + first, rows), 1, first=first)
        by = skewless.group_by(
            streams.stream(spark, tmp_path / "in"),
            "k",
            policy="wrap_around",
            workers=2,
            state=str(tmp_path / "state"),
        )
        frame = by.window("ts", "1 hour", watermark="10 seconds").agg(F.count("*").alias("n"))
        found = streams.run_updates(frame, tmp_path, "update")
        return {str(row["k"]): int(str(row["n"])) for rows in found for row in rows}

    try:
        assert count_up(0, 50) == {"hot": 50, "cold": 1}
        spark.conf.set("spark.sql.shuffle.partitions", "8")
        count_up(1, 5)
        assert "keeps this query's state in 2 partitions, not in the 8" in caplog.text
        skewless.spark.repartition_state(spark, checkpoint, 8)
        caplog.clear()
        counts = count_up(2, 15)
        assert counts["hot"] == 70
        assert "partitions, not in the" not in caplog.text
    finally:
        spark.conf.unset(store)


def test_state_of_a_running_query_is_left_alone(spark, tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    with pytest.raises(DataError, match="is no checkpoint of a query that has run"):
        skewless.spark.repartition_state(spark, checkpoint, 8)
    with pytest.raises(ParameterError, match="partitions must be an int of at least 1, got 0"):
        skewless.spark.repartition_state(spark, checkpoint, 0)
    streams.write_batches(tmp_path / "in", [batch(100, [("a", 1)])])
    query = streams.start(streams.stream(spark, tmp_path / "in"), tmp_path)
    try:
        query.processAllAvailable()
        with pytest.raises(DataError, match="stop it first"):
            skewless.spark.repartition_state(spark, checkpoint + "/", 8)
    finally:
        query.stop()
    with pytest.raises(DataError, match=r"Spark left '.*' as it was"):  # it keeps no state
        skewless.spark.repartition_state(spark, checkpoint, 8)


def test_events_are_dropped_as_duplicates_by_id_however_their_hot_key_is_dealt(
    spark, tmp_path: Path
) -> None:
    rows = [("hot", i % 10) for i in range(1_000)]
    streams.write_batches(tmp_path / "in", [batch(100, rows[:500]), batch(101, rows[500:])])
    source = streams.stream(spark, tmp_path / "in")
    key = spark.range(1).select(F.xxhash64(F.lit("hot"))).collect()[0][0]
    split = skewless.Routing(4, {key % 2**64: dict.fromkeys(range(4), 0.25)})
    dealt = skewless.repartition(source, "k", policy=split)
    found = streams.run(dealt.dropDuplicates(["k", "v"]), tmp_path)
    assert sum(found.values()) == 10


@pytest.mark.parametrize("how", ["inner", pytest.param("left", marks=pytest.mark.slow)])
def test_two_streams_with_a_hot_key_join_row_for_row_and_share_its_state(
    spark, tmp_path: Path, how
) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "8")
    lefts = [("hot", i) for i in range(1_000)] + [(f"c{i % 30}", i) for i in range(60)]
    rights = [("hot", i) for i in range(10)] + [(f"c{i}", i) for i in range(20)]
    for side, rows in (("left", lefts), ("right", rights)):
        halves = [batch(100 + i, rows[i::2]) for i in range(2)]
        streams.write_batches(tmp_path / side, halves)

    def joined(policy: object, folder: Path) -> Counter[str]:
        left, right = (
            streams.stream(spark, tmp_path / side).withWatermark("ts", "1 minute")
            for side in ("left", "right")
        )
        right = right.select(
            F.col("k").alias("rk"), F.col("ts").alias("rts"), F.col("v").alias("w")
        )
        near = F.col("rts").between(
            F.col("ts") - F.expr("interval 1 minute"), F.col("ts") + F.expr("interval 1 minute")
        )
        frame = skewless.join(left, right, [F.col("k") == F.col("rk"), near], how, policy=policy)
        assert frame.columns == ["ts", "k", "v", "x", "rk", "rts", "w"]
        folder.mkdir()
        return streams.run(frame, folder)

    key = spark.range(1).select(F.xxhash64(F.lit("hot"))).collect()[0][0]
    routing = skewless.Routing(8, {key % 2**64: dict.fromkeys(range(8), 1 / 8)})
    plain = joined("spark", tmp_path / "plain")
    assert joined(routing, tmp_path / "cut") == plain
    assert sum(count for row, count in plain.items() if "'hot'" in row) == 10_000
    slots = (
        spark.read.format("statestore")
        .option("joinSide", "left")
        .load(str(tmp_path / "cut" / "checkpoint"))
        .groupBy("partition_id")
        .count()
        .collect()
    )
    # Eight cells on eight tasks by their hash: several share the hot key, none has it whole.
    assert len(slots) >= 4
    assert max(row["count"] for row in slots) <= 600


def test_streams_are_not_joined_in_a_way_that_would_double_rows(spark, tmp_path: Path) -> None:
    streams.write_batches(tmp_path / "in", [batch(100, [("a", 1)])])
    source = streams.stream(spark, tmp_path / "in")
    with pytest.raises(DataError, match="a stream cannot be counted before it runs"):
        skewless.join(source, source, "k")
    with pytest.raises(DataError, match="how='full' cannot be cut by a Routing on streams"):
        skewless.join(source, source, "k", "full", policy=skewless.Routing(4))
    with pytest.raises(DataError, match="deals cold keys to all workers"):
        skewless.join(source, source, "k", policy=skewless.Routing.shuffling(4))
