"""What a skewed join costs: Spark with AQE on and forced, hand salting, broadcast, and skewless.

Two kinds of run: on ``local[2]`` the join alone, where all is real CPU, and on ``local[16]`` with 20 us
of work on each row of the result, asleep, so that 16 slots can be had on few cores. Keys: uniform, and
one key with 90 % of the left rows. Every round runs all variants once, in an order that moves on by one;
row counts are compared first. The slowest task over the median, and the bytes shuffled, are Spark's own
figures, from its REST interface.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from benchmarks.spark.session import local_session

__all__ = ["run"]

HOT = 0.9
COST_US = 20.0
#: The interface tells what each stage took.
_SETTINGS = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.ui.enabled": "true"}


def run(rows: int = 2_000_000, slept_rows: int = 400_000, rounds: int = 3) -> dict[str, Any]:
    """Measure every cell, print a table, and return everything measured."""
    cells = []
    with tempfile.TemporaryDirectory(prefix="skewless-bench-") as folder:
        for slots, n, cost_us in ((2, rows, 0.0), (16, slept_rows, COST_US)):
            spark = local_session(Path(folder), slots, 16, "4g", _SETTINGS)
            try:
                for keys in ("uniform", "hot"):
                    cells.append(_cell(spark, Path(folder), keys, slots, n, cost_us, rounds))
                    _print(cells[-1])
            finally:
                spark.stop()
    return {"benchmark": "spark/joins", "rounds": rounds, "hot_share": HOT, "cells": cells}


def _cell(
    spark: SparkSession, folder: Path, keys: str, slots: int, rows: int, cost_us: float, rounds: int
) -> dict[str, Any]:
    n = F.col("id")
    key = n if keys == "uniform" else F.when(n < int(HOT * rows), 1).otherwise(n)
    sides = []
    for name, frame in (
        (
            "big",
            spark.range(0, rows, 1, 16).select(key.alias("k"), n.alias("a"), F.rand(1).alias("z")),
        ),
        ("dim", spark.range(0, rows, 1, 16).select(n.alias("k"), n.alias("b"))),
    ):
        path = str(folder / f"{name}-{keys}-{rows}")
        frame.write.mode("overwrite").parquet(path)
        sides.append(spark.read.parquet(path))
    variants = _variants(*sides)
    counts = {name: make().count() for name, (make, _) in variants.items()}
    assert set(counts.values()) == {rows}, counts
    timed: dict[str, list[dict[str, float]]] = {name: [] for name in variants}
    names = list(variants)
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            make, settings = variants[name]
            for setting, value in settings.items():
                spark.conf.set(setting, value)
            timed[name].append(_timed(spark, make, cost_us))
            for setting in settings:
                spark.conf.unset(setting)
    found = {
        name: {what: statistics.median(one[what] for one in each) for what in each[0]}
        | {"s_min": min(one["s"] for one in each), "s_max": max(one["s"] for one in each)}
        for name, each in timed.items()
    }
    return {
        "master": f"local[{slots}]",
        "keys": keys,
        "rows": rows,
        "cost_us": cost_us,
        "found": found,
    }


def _variants(
    big: DataFrame, dim: DataFrame
) -> dict[str, tuple[Callable[[], DataFrame], dict[str, str]]]:
    salted = big.withColumn("salt", (F.rand(2) * 16).cast("int"))
    copies = dim.withColumn("salt", F.explode(F.sequence(F.lit(0), F.lit(15))))
    small = {
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1MB",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1MB",
        "spark.sql.adaptive.forceOptimizeSkewedJoin": "true",
    }
    return {
        "spark": (lambda: big.join(dim, "k"), {}),
        "spark, AQE forced": (lambda: big.join(dim, "k"), small),
        "salted": (lambda: salted.join(copies, ["k", "salt"]).drop("salt"), {}),
        "broadcast": (lambda: big.join(F.broadcast(dim), "k"), {}),
        "split": (lambda: skewless.join(big, dim, "k", policy="split", workers=16), {}),
        "auto": (lambda: skewless.join(big, dim, "k", workers=16), {}),
    }


def _timed(spark: SparkSession, make: Callable[[], DataFrame], cost_us: float) -> dict[str, float]:
    before = {stage["stageId"] for stage in _rest(spark, "stages")}
    begun = time.perf_counter()
    joined = make()
    if cost_us:
        joined = joined.mapInArrow(_slow(cost_us), joined.schema)
    joined.write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - begun
    time.sleep(0.5)  # Spark tells its interface a moment later
    stages = [s for s in _rest(spark, "stages?status=complete") if s["stageId"] not in before]
    # The stage of the join is the one that reads the most from the shuffle.
    last = max(stages, key=lambda stage: (stage["shuffleReadRecords"], stage["stageId"]))
    quantiles = _rest(
        spark, f"stages/{last['stageId']}/{last['attemptId']}/taskSummary?quantiles=0.5,1.0"
    )["executorRunTime"]
    return {
        "s": seconds,
        "slowest_over_median": quantiles[1] / max(quantiles[0], 1.0),
        "slowest_s": quantiles[1] / 1e3,
        "shuffled_mb": sum(stage["shuffleWriteBytes"] for stage in stages) / 1e6,
    }


def _slow(cost_us: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.num_rows * cost_us / 1e6)
            yield batch

    return work


def _rest(spark: SparkSession, path: str) -> Any:
    context = spark.sparkContext
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{path}"
    with urllib.request.urlopen(address) as answer:  # noqa: S310 # the session's own, on this machine
        return json.load(answer)


def _print(cell: dict[str, Any]) -> None:
    print(
        f"\n{cell['master']}, {cell['keys']} keys, {cell['rows']:,} rows a side, "
        f"{cell['cost_us']:g} us a row of the result"
    )
    print(f"{'':20}{'s':>8}{'(min-max)':>16}{'/Spark':>9}{'slowest/median':>16}{'shuffled MB':>13}")
    plain = cell["found"]["spark"]["s"]
    for name, each in cell["found"].items():
        spread = f"({each['s_min']:.2f}-{each['s_max']:.2f})"
        print(
            f"{name:20}{each['s']:8.2f}{spread:>16}{each['s'] / plain:9.2f}"
            f"{each['slowest_over_median']:16.2f}{each['shuffled_mb']:13.1f}",
            flush=True,
        )


if __name__ == "__main__":
    run()
