"""One key with a million rows, a driver and executors of 512 MB: say of each verb whether it finishes.

Run by itself: ``python little_memory.py FOLDER``. Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import skewless

N_ROWS, N_WORKERS = 1_000_000, 8


class Longest(skewless.Aggregator):
    """The longest text and the number of rows."""

    inputs = ("text",)
    state = "longest string, n long"
    result = "longest string, n long"

    def create(self) -> dict[str, object]:
        return {"longest": "", "n": 0}

    def update(self, state: dict[str, object], rows: pa.Table) -> dict[str, object]:
        longest = max([str(state["longest"]), *rows["text"].to_pylist()], key=lambda t: (len(t), t))
        return {"longest": longest, "n": int(str(state["n"])) + rows.num_rows}

    def merge(self, left: dict[str, object], right: dict[str, object]) -> dict[str, object]:
        longest = max(str(left["longest"]), str(right["longest"]), key=lambda t: (len(t), t))
        return {"longest": longest, "n": int(str(left["n"])) + int(str(right["n"]))}

    def finish(self, state: dict[str, object]) -> dict[str, object]:
        return state


def main(folder: Path) -> None:
    """Run each verb over the one key and compare what it counts with what must come out."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.shuffle.partitions", str(N_WORKERS))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    n = F.col("id")
    made = spark.range(0, N_ROWS, 1, 8).select(
        F.lit("hot").alias("k"),
        (n * 7919 % N_ROWS).alias("t"),
        F.sha2(n.cast("string"), 512).alias("text"),
    )
    made.write.mode("overwrite").parquet(str(folder / "rows"))
    rows = spark.read.parquet(str(folder / "rows"))
    heap = spark._jvm.java.lang.Runtime.getRuntime().maxMemory()  # type: ignore[union-attr]
    found: dict[str, object] = {"heap_mb": heap // 2**20}
    running = skewless.window(
        rows,
        "k",
        "t",
        {"total": skewless.over("sum", "t", rows=(None, 0))},
        policy="wrap_around",
        workers=N_WORKERS,
    )
    found["window"] = running.agg(F.max("total")).collect()[0][0]
    top = skewless.window_top_n(rows, partition_by="k", order_by="t", n=3)
    found["top_n"] = sorted(row.t for row in top.collect())
    found["dedupe"] = skewless.dedupe(rows, "k", order_by="t").collect()[0].t
    by = skewless.group_by(rows, "k", policy="wrap_around", workers=N_WORKERS)
    found["aggregate"] = by.aggregate(Longest()).collect()[0].n
    small = spark.createDataFrame([("hot", 1)], "k string, w int")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    joined = skewless.join(rows, small, "k", policy="split", workers=N_WORKERS)
    found["join"] = joined.agg(F.sum("w")).collect()[0][0]
    balanced = skewless.repartition(rows, "k", policy="wrap_around", workers=N_WORKERS)
    found["repartition"] = balanced.agg(F.count("text")).collect()[0][0]
    print(json.dumps(found))  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    main(Path(sys.argv[1]))
