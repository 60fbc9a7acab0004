"""Troubles that people have had with skewed streams, as tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import skewless
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
