"""One life of a windowed query that learns: ``python -m tests.faults.stream_life FOLDER SEED [cluster]``.

Reads what there is in ``FOLDER/in``, a file per batch, and dies by SIGKILL after a random time; seed 0
lives to the end and writes its result to ``FOLDER/result.json``. With ``cluster`` there are two
executors, and what dies is one of them, every few batches, while the query goes on.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import skewless
from tests.faults.executor_loss import executors
from tests.spark import streams

N_WORKERS = 4
#: Seconds until a life ends, from the start of its query: the first batch takes some of them.
LEAST_S, MOST_S = 0.2, 12.0
#: Batches from one lost executor to the next, and how many are lost.
APART, LOST = 3, 3


def session(folder: Path, master: str) -> SparkSession:
    """Start Spark for one life."""
    builder = SparkSession.builder.master(master)
    for name, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(folder / "local"),
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
        "spark.deploy.maxExecutorRetries": "-1",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def lose_executors(
    spark: SparkSession, commits: Path, over: threading.Event, killed: list[int]
) -> None:
    """Kill one of the executors every few batches, in the midst of one, never the last that is left."""
    driver_jvm = spark.sparkContext._gateway.proc.pid
    while len(killed) < LOST and not over.wait(0.3):
        done = len([path for path in commits.glob("*") if path.name.isdigit()])
        alive = executors(driver_jvm)
        if done > APART * len(killed) and len(alive) > 1:
            os.kill(alive[0], signal.SIGKILL)
            killed.append(alive[0])


def main(folder: Path, seed: int, *, cluster: bool) -> None:
    """Live until killed, or to the end of the files."""
    spark = session(folder, "local-cluster[2,1,1024]" if cluster else "local[2]")
    by = skewless.group_by(
        streams.stream(spark, folder / "in"),
        "k",
        policy="wrap_around",
        workers=N_WORKERS,
        state=str(folder / "state"),
    )
    windows = by.window("ts", "4 seconds", "2 seconds", watermark="1 second")
    frame = windows.agg(F.count("*").alias("n"), F.sum("v").alias("total"))
    writer = frame.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "out"))
    over, killed = threading.Event(), list[int]()
    if seed:
        wait = random.Random(seed).uniform(LEAST_S, MOST_S)  # noqa: S311
        timer = threading.Timer(wait, os.kill, (os.getpid(), signal.SIGKILL))
        timer.daemon = True
        timer.start()
    elif cluster:
        args = spark, folder / "checkpoint" / "commits", over, killed
        threading.Thread(target=lose_executors, args=args, daemon=True).start()
    query.awaitTermination()
    over.set()
    if seed:
        timer.cancel()
    out = spark.read.parquet(
        str(folder / "out")
    )  # what the sink committed, no file of a dead batch
    rows = [[int(r.window.end.timestamp()), r.k, r.n, r.total] for r in out.collect()]
    result = {"rows": rows, "killed": len(killed), "version": windows.batches[-1].version}
    (folder / "result.json").write_text(json.dumps(result))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), cluster="cluster" in sys.argv[3:])
