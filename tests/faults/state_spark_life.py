"""One life of a stateful query on Spark: ``python -m tests.faults.state_spark_life FOLDER POINT NTH``.

Reads what there is in ``FOLDER/in`` and dies, by SIGKILL, when the driver passes the point for the
NTH time; 0 lets it live to the end.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import skewless
from skewless.state_store import Repartitioning, faults
from tests.spark import streams
from tests.spark.test_stateful import OUTPUT, STATE, fold


def main(folder: Path, point: str, nth: int) -> None:
    passed = 0

    def hook(reached: str) -> None:
        nonlocal passed
        passed += reached == point
        if nth and passed == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    faults.hook = hook
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", str(folder / "local"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    groups = skewless.group_by(
        streams.stream(spark, folder / "in"),
        "k",
        policy=skewless.OffGreedy(2),
        state=str(folder / "state"),
    )
    stateful = groups.stateful(
        fold, STATE, OUTPUT, order_by="ts", repartition=Repartitioning.always()
    )
    writer = stateful.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(str(folder / "out")).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
