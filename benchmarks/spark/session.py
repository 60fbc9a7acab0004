"""The local Spark session that a benchmark runs on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

__all__ = ["local_session"]


def local_session(
    folder: Path,
    slots: int,
    partitions: int,
    memory: str = "3g",
    more: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark on the loopback address, quiet.

    Parameters
    ----------
    folder
        Where it may put its files.
    slots
        Task slots.
    partitions
        Of a shuffle.
    memory
        Of the driver.
    more
        Further settings.
    """
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": memory,
        "spark.local.dir": str(folder / "local"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(more or {}),
    }
    builder = SparkSession.builder.master(f"local[{slots}]").appName("skewless benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
