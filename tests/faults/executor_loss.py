"""Kill one of two executors between map and reduce, and say whether a split lost or doubled a row.

Run by itself: ``python executor_loss.py FOLDER ROUNDS BEHIND_SHUFFLE``. Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless import Routing

#: The hot key is dealt to all four workers.
N_ROWS, N_WORKERS = 40_000, 4


def executors(driver_jvm: int) -> list[int]:
    """Return the process ids of the executors that this driver's workers started."""
    found, parents = [], {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rsplit(")", 1)[1].split()[1])
            if b"CoarseGrainedExecutorBackend" in command and b"java" in command.split(b"\0")[0]:
                found.append(int(entry.name))
    return [pid for pid in found if driver_jvm in _ancestors(pid, parents)]


def _ancestors(pid: int, parents: dict[int, int]) -> list[int]:
    line = []
    while pid in parents:
        line.append(pid)
        pid = parents[pid]
    return line


def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the killer time: every reduce task waits before it reads its rows."""
    time.sleep(1.5)
    yield from batches


def kill_one_when_reducing(spark: SparkSession, stop: threading.Event, killed: list[int]) -> None:
    """Wait until a stage that follows a finished one runs, then kill an executor."""
    tracker = spark.sparkContext.statusTracker()
    driver_jvm = spark.sparkContext._gateway.proc.pid
    while not stop.is_set():
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None and info.numTasks == N_WORKERS and info.numActiveTasks > 0:
                victims = executors(driver_jvm)
                if victims:
                    os.kill(victims[0], signal.SIGKILL)
                    killed.append(victims[0])
                    return
        time.sleep(0.05)


def attempt(spark: SparkSession, frame: DataFrame, expected: Counter[str]) -> dict[str, object]:
    """Route, lose an executor, and compare the rows."""
    key = frame.select(F.xxhash64(F.lit("hot"))).first()[0]  # type: ignore[index]
    shares = dict.fromkeys(range(N_WORKERS), 0.25)
    plain = Routing.hashing(N_WORKERS)
    routing = Routing(N_WORKERS, {key % 2**64: shares}, plain.buckets)
    routed = skewless.repartition(frame, "k", policy=routing)
    stop, killed = threading.Event(), []
    killer = threading.Thread(target=kill_one_when_reducing, args=(spark, stop, killed))
    killer.start()
    try:
        marked = routed.mapInArrow(slow, frame.schema).withColumn("p", F.spark_partition_id())
        rows = marked.collect()
    finally:
        stop.set()
        killer.join()
    found = Counter(repr(tuple(row)[:-1]) for row in rows)
    hot = Counter(row.p for row in rows if row.k == "hot")
    return {"killed": len(killed), "exact": found == expected, "workers_of_hot": len(hot)}


def main(folder: Path, rounds: int, *, behind_shuffle: bool) -> None:
    """Run `rounds` attempts in one cluster of two executors."""
    spark = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path))
        .config("spark.sql.shuffle.partitions", "6")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.deploy.maxExecutorRetries", "-1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    n = F.col("id")
    made = spark.range(0, N_ROWS, 1, 6).select(
        F.when(n % 10 < 9, "hot").otherwise(F.concat(F.lit("c"), n % 500)).alias("k"),
        F.when(n % 4 == 0, 0).otherwise(n).alias("v"),  # a quarter of the rows is alike
    )
    made.write.mode("overwrite").parquet(str(folder / "rows"))
    frame = spark.read.parquet(str(folder / "rows"))
    if behind_shuffle:
        frame = frame.repartition(6, "v").select("k", "v")
    expected = Counter(repr(tuple(row)) for row in frame.collect())
    print(json.dumps([attempt(spark, frame, expected) for _ in range(rounds)]))  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), behind_shuffle=sys.argv[3] == "yes")
