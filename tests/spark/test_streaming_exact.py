"""Exact mode on streams: tasks that route row by row, the same rows as plain Python counts."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import skewless
from skewless.errors import ParameterError
from tests.oracles import stream_windows as oracle
from tests.spark import streams

S = streams.SECOND_US


@pytest.fixture(autouse=True)
def two_partitions(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", str(before))


@pytest.mark.parametrize(
    ("policy", "estimates"),
    [
        (skewless.CooperativeDalton(3), "probed"),
        (skewless.PKG(3), "local"),
        pytest.param(skewless.Dalton(3), "global", marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_exact_mode_gives_the_same_rows_and_reports_its_loads(
    spark, tmp_path: Path, policy, estimates
) -> None:
    tables = streams.unruly(4, n_batches=3)
    streams.write_batches(tmp_path / "in", tables)
    stream = streams.stream(spark, tmp_path / "in")
    by = skewless.group_by(stream, "k", policy=policy, state=str(tmp_path / "state"))
    groups = by.window("ts", "10 seconds", watermark="3 seconds", mode="exact", estimates=estimates)
    frame = groups.agg(
        F.count("*").alias("n_rows"), F.sort_array(F.collect_list("v")).alias("values")
    )
    found = streams.run_updates(frame, tmp_path, "append")
    counted = {
        (round(row["window"]["end"].timestamp() * S), row["k"]): (
            row["n_rows"],
            list(row["values"]),
        )
        for rows in found
        for row in rows
    }
    rows = streams.rows_of(tables)
    expected = {}
    for complete, _ in oracle.windows(rows, 10 * S, 10 * S, 3 * S):
        expected.update(complete)
    assert counted == {
        at: (len(values), sorted(v for v in values if v is not None))
        for at, values in expected.items()
    }
    deadline = time.monotonic() + 60
    while len(groups.batches) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [record.rows for record in groups.batches] == [400, 400, 400]
    assert all(int(record.loads.sum()) == 400 for record in groups.batches)
    assert groups.syncs[0][:2] == (0, 1)
    sends = isinstance(policy, skewless.CooperativeDalton)
    assert groups.syncs[0].messages == (1 if sends else 0)  # one file, one task
    assert f"exact, every task routes row by row, with {estimates} loads" in groups.explain()
    published = list((tmp_path / "state").glob("exact-*.bin"))
    assert bool(published) == (estimates != "local")


@pytest.mark.parametrize(("mode", "tables"), [("exact", False), ("compiled", True)])
def test_rows_that_wait_for_python_carry_no_tables(spark, tmp_path: Path, mode, tables) -> None:
    stream = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "ts")
    by = skewless.group_by(stream, "value", policy="dalton", workers=2, state=str(tmp_path))
    counted = by.window("ts", "10 seconds", mode=mode).agg(F.count("*"))
    plan = counted._jdf.queryExecution().analyzed().toString()
    (carried,) = re.findall(r"struct\(([^)]*)\) AS __skewless_policy", plan)
    assert carried.startswith("version, ")
    assert ("displacement" in carried) == tables


def test_a_planner_decides_no_rows(spark, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "ts")
    by = skewless.group_by(stream, "value", policy="kip", workers=2, state=str(tmp_path))
    with pytest.raises(ParameterError, match="mode='exact' is for policies that decide tuple by"):
        by.window("ts", "10 seconds", mode="exact")
    with pytest.raises(ParameterError, match="'compiled', 'exact' or 'planned', got 'precise'"):
        by.window("ts", "10 seconds", mode="precise")
    shuffled = skewless.group_by(
        stream.repartition(2, "value"), "value", policy="pkg", workers=2, state=str(tmp_path)
    )
    with pytest.raises(ParameterError, match="needs rows straight from the source"):
        shuffled.window("ts", "10 seconds", mode="exact")
